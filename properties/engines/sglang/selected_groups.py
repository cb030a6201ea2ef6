"""Groups that an indexer selects: their positions or slots, and those behind the last whole group."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from cumae.oracle import Inputs
from cumae.properties.dialects import CUMAE
from cumae.properties.engines.pages import slots_of
from cumae.properties.engines.selected_groups import STEPS, Lists, by_two, with_groups
from cumae.properties.engines.sglang.engine import ENGINE

Tensor = torch.Tensor
_QSA = "sglang/srt/layers/attention/qsa/kernel.py"
_POOLS = "sglang/srt/layers/attention/dsa/kpool_fp8_index.py"
_NAMES = ("expand_pooled_groups_to_topk", "append_kpool_tail_to_topk")
_PACKED = with_groups(CUMAE, Lists(free_id=-1))


def _slot(inputs: Inputs, owner: int, position: int) -> int:
    slots: list[list[int]] = inputs.once("slots of requests", lambda: slots_of(inputs.case))
    return slots[owner][position]


def _key(inputs: Inputs, owner: int, position: int) -> int:
    return int(inputs["cu_seqlens_k"][owner]) + position


def _expanding(function: Any) -> Callable[..., dict[str, Tensor]]:
    def expand(group_ids: Tensor, places: Tensor, keys_seen: Tensor, group_size: int) -> dict[str, Tensor]:
        topk = group_ids.shape[1] * group_size
        return {"selected_positions": function(group_ids, places, keys_seen, group_size, topk)}

    return expand


@ENGINE.adapts(
    _QSA, "torch_expand_qsa_block_indices", operation="window_slots", dialect=_PACKED, domain=STEPS
)
def qsa_lists_in_torch(function: Any) -> Callable[..., dict[str, Tensor]]:
    """Without columns between; of a CPU."""
    return _expanding(function)


@ENGINE.adapts(
    _QSA, "triton_expand_qsa_block_indices", operation="window_slots", dialect=_PACKED, domain=STEPS
)
def qsa_lists(function: Any) -> Callable[..., dict[str, Tensor]]:
    """Without columns between, in one launch."""
    return _expanding(function)


@ENGINE.adapts(
    _POOLS,
    *_NAMES,
    operation="window_slots",
    dialect=with_groups(CUMAE, Lists()),
    domain=STEPS,
)
def pool_positions(expand_pools: Any, append_tail: Any) -> Callable[..., dict[str, Tensor]]:
    """Positions, without columns between."""

    return by_two(expand_pools, append_tail)


@ENGINE.adapts(
    _POOLS,
    *_NAMES,
    operation="window_slots",
    dialect=with_groups(CUMAE, Lists(entry=_slot)),
    domain=STEPS.having(
        phases=("decode",), max_query_len=4, max_context_len=2**12, max_requests=256, large_slots=False
    ),
)
def pool_slots(expand_pools: Any, append_tail: Any) -> Callable[..., dict[str, Tensor]]:
    """The same in a table that holds the slot of each token."""

    def expand(
        group_ids: Tensor,
        are_selected: Tensor,
        keys_seen: Tensor,
        eligible: Tensor,
        token_slots: Tensor,
        group_size: int,
    ) -> dict[str, Tensor]:
        both = (partial(function, page_table=token_slots) for function in (expand_pools, append_tail))
        return by_two(*both)(group_ids, are_selected, keys_seen, eligible, group_size)

    return expand


@ENGINE.adapts(
    _POOLS,
    *_NAMES,
    operation="window_slots",
    dialect=with_groups(CUMAE, Lists(entry=_key)),
    domain=STEPS,
)
def pool_keys(expand_pools: Any, append_tail: Any) -> Callable[..., dict[str, Tensor]]:
    """The same in a list of the keys of all requests."""

    def expand(
        group_ids: Tensor,
        are_selected: Tensor,
        keys_seen: Tensor,
        eligible: Tensor,
        first_keys: Tensor,
        group_size: int,
    ) -> dict[str, Tensor]:
        both = (partial(function, topk_offsets=first_keys) for function in (expand_pools, append_tail))
        return by_two(*both)(group_ids, are_selected, keys_seen, eligible, group_size)

    return expand
