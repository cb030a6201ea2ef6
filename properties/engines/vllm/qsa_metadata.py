"""Qwen 4: positions, owners, slots and a work list of a step, in one launch."""

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch

from cumae.oracle import Case, Inputs, Request
from cumae.properties.dialects import VLLM, Output
from cumae.properties.engines.pages import having
from cumae.properties.engines.vllm.cache_groups import RINGS
from cumae.properties.engines.vllm.draft_windows import LAST_SLOTS
from cumae.properties.engines.vllm.engine import ENGINE, SMALL
from cumae.properties.running.device import can_begin_early

Tensor = torch.Tensor
_GRANTED = {"min_tokens": 1, "num_padding_slots": (0,)}


def _owners(_: Any, inputs: Inputs) -> list[int]:
    return [max(owner, 0) for owner in inputs["token_to_request"]]


def _positions(_: Any, inputs: Inputs) -> list[int]:
    """Return the positions, -1 on padding."""
    owners, positions = inputs["token_to_request"], inputs["position_ids"]
    return [p if owner >= 0 else -1 for owner, p in zip(owners, positions, strict=True)]


def _visible(inputs: Inputs, ratio: int) -> list[int]:
    """Return how many whole groups each token sees, its own included if it ends one."""
    return [(position + 1) // ratio for position in _positions(None, inputs)]


def _ratio(case: Case) -> int:
    return case.options.keys.compress_ratio


def _num_work(case: Case) -> int:
    """Return the most items that the builder makes room for."""
    ratio = _ratio(case)
    return (case.num_tokens_padded + (ratio - 1) * case.num_requests_padded) // ratio


def _items(request: Request, ratio: int) -> int:
    """Return the groups that new tokens end, one at least, which also keeps the tokens behind the last."""
    groups = request.seq_len // ratio - request.context_len // ratio
    return max(groups, 1) if request.query_len else 0


def _work(_: Any, inputs: Inputs) -> list[int]:
    """Return request and number of each item, -1 behind the last one."""
    case = inputs.case
    pairs = [(b, i) for b, r in enumerate(case.batch.requests) for i in range(_items(r, _ratio(case)))]
    pairs += [(-1, -1)] * (_num_work(case) - len(pairs))
    return [number for pair in pairs for number in pair]


def _of_tokens(follows: str, ratio: Callable[[Case], int]) -> tuple[Output, ...]:
    """Return the outputs of each token that both forms of the launch write."""

    def tokens(case: Case) -> tuple[int, ...]:
        return (case.num_tokens_padded,)

    def visible(_: Any, inputs: Inputs) -> list[int]:
        return _visible(inputs, ratio(inputs.case))

    of = partial(Output, axis="token", follows=follows, shape=tokens)
    return (
        of("owners", "int32", rule="its request, 0 on padding", expect=_owners),
        of("places", "int64", rule="its position, -1 on padding", expect=_positions),
        of("groups_seen", "int32", rule="the whole groups up to it", expect=visible),
    )


def _step(table: Tensor, starts: Tensor, seq_lens: Tensor, num_tokens: int, own_slots: Tensor) -> Any:
    """Return the metadata of a step as the builder gets it."""
    return SimpleNamespace(
        block_table_tensor=table,
        query_start_loc=starts,
        query_start_loc_cpu=[num_tokens],
        seq_lens=seq_lens,
        slot_mapping=own_slots,
        num_actual_tokens=len(own_slots),
    )


_FILE, _BUILD = "vllm/models/qwen4_exp/common/qsa_cache.py", "build_qsa_metadata_triton"


@ENGINE.adapts(
    _FILE,
    _BUILD,
    operation="compressed_slots",
    dialect=having(
        VLLM,
        "compressed_slots",
        *VLLM.outputs["compressed_slots"],
        *_of_tokens("compressed_slots", _ratio),
        Output(
            "work",
            "int32",
            "work_item",
            "request and number of each group that the step ends, and of one item of each other request",
            follows="compressed_slots",
            shape=lambda case: (_num_work(case), 2),
            expect=_work,
        ),
    ),
    domain=SMALL.having(compress_ratio=(2, 3, 4, 16, 128), missing_blocks=False, world=(1,), **_GRANTED),
    _metadata_launch_pdl=can_begin_early,
)
def qsa_metadata(function: Any) -> Callable[..., None]:
    """Qwen 4: slots of compressed states, with positions, owners, groups seen and the work list."""

    def launch(
        query_start_loc: Tensor,
        seq_lens: Tensor,
        slot_mapping: Tensor,
        block_table: Tensor,
        num_tokens: int,
        block_size: int,
        compress_ratio: int,
        compressed_slot_mapping: Tensor,
        owners: Tensor,
        places: Tensor,
        groups_seen: Tensor,
        work: Tensor,
    ) -> None:
        step = _step(block_table, query_start_loc, seq_lens, num_tokens, slot_mapping)
        buffers = (owners, places, groups_seen, compressed_slot_mapping)
        sizes = {"storage_block_size": block_size, "compress_ratio": compress_ratio}
        capacity = max(len(seq_lens), 2)
        function(step, *buffers, **sizes, k_work_metadata_buffer=work, request_capacity=capacity)

    return launch


@ENGINE.adapts(
    _FILE,
    _BUILD,
    operation="ring_slots",
    dialect=having(
        RINGS,
        "ring_slots",
        LAST_SLOTS,
        *_of_tokens("ring_slots", lambda case: 1),
        starts="query_start_loc",
    ),
    domain=SMALL.having(max_block_id=65_535, far_rows=False, **_GRANTED),
    _metadata_launch_pdl=can_begin_early,
)
def qsa_metadata_of_rings(function: Any) -> Callable[..., None]:
    """Qwen 4: slots in the rings for the last tokens of each chunk; each request has one ring."""

    def launch(
        ring_table: Tensor,
        starts: Tensor,
        seq_lens: Tensor,
        num_tokens: int,
        capacity: int,
        last_slots: Tensor,
        owners: Tensor,
        places: Tensor,
        groups_seen: Tensor,
    ) -> None:
        step = _step(ring_table, starts, seq_lens, num_tokens, torch.empty_like(last_slots))
        buffers = (owners, places, groups_seen, last_slots)
        sizes = {"storage_block_size": capacity, "compress_ratio": 1}
        function(step, *buffers, **sizes, circular_buffer_size=capacity)

    return launch
