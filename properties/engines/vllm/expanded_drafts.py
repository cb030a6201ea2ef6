"""Runner V1's steps of draft models that compute all drafts at once, behind the step before."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from cumae.oracle import ANY, Case, Inputs
from cumae.oracle.slot_mapping import slot_of
from cumae.properties.dialects import Output
from cumae.properties.engines.vllm.engine import ENGINE
from cumae.properties.engines.vllm.parallel_drafts import BEFORE, DOMAIN, positions_before, step_before

Tensor = torch.Tensor
_FILE = "vllm/v1/spec_decode/utils.py"
_KERNEL = "copy_and_expand_dflash_inputs_kernel"
_UNPADDED = DOMAIN.having(padding="none", world=(1,), max_query_len=64)


def _slots_before(_: Any, inputs: Inputs) -> list[Any]:
    """Return the slots of the kept tokens; those of rejected ones are computed, too, and not read."""
    case, found = inputs.case, list[Any]()
    for request, (context, kept, more) in zip(case.batch.requests, step_before(case), strict=True):
        kept_positions = range(context - kept, context)
        found += [slot_of(request.block_ids, p, case.batch.block_size) for p in kept_positions]
        found += [ANY] * more
    return found


def _sampled(case: Case) -> list[int]:
    """Return the rows of all drafts: each request's first row holds its last sampled token."""
    each = case.batch.requests[0].query_len
    return [b * each + i for b in range(len(case.batch.requests)) for i in range(1, each)]


def _more(name: str, axis: str, rule: str, expect: Callable[[Any, Inputs], list[Any]], size: Any) -> Output:
    dtype = "int32" if axis == "sampled_row" else "int64"
    return Output(name, dtype, axis, rule, shape=lambda case: (size(case),), expect=expect)


def _size_before(case: Case) -> int:
    return len(positions_before(case))


_DRAFTED = replace(
    BEFORE,
    outputs={
        "position_ids": (
            Output("positions", follows="position_ids"),
            _more(
                "context_positions",
                "token_before",
                "its position",
                lambda _, inputs: positions_before(inputs.case),
                _size_before,
            ),
            _more(
                "sampled_rows",
                "sampled_row",
                "the row of the draft",
                lambda _, inputs: _sampled(inputs.case),
                lambda case: len(_sampled(case)),
            ),
        ),
        "slot_mapping": (
            Output("slot_mapping"),
            _more("context_slots", "token_before", "its slot, if it is kept", _slots_before, _size_before),
        ),
    },
)


def _expanded(
    kernel: Any, rejected: Tensor, starts: Tensor, positions: Tensor, table: Tensor, sizes: tuple[int, int]
) -> dict[str, Tensor]:
    """Return the outputs of a step; ``sizes``: the block, and the rows of each request."""
    (block_size, each), count = sizes, len(rejected)
    ids, rows = rejected.new_empty(count * each), positions.new_empty((2, count * each))
    before = torch.empty((2, len(positions)), dtype=torch.int64, device=positions.device)
    sampled = rejected.new_empty(count * (each - 1))
    outs = (ids, before[0], rows[0], before[1], rows[1], sampled)
    longest = int(starts.diff().max()) + each
    scalars = (7, block_size, each, each - 1, len(positions))
    step = (table, table.stride(0), starts, rejected)
    how = {"BLOCK_SIZE": 64, "HAS_NUM_REJECTED": True}
    kernel[(count, -(-longest // 64))](ids.clone(), positions, *outs, *step, *scalars, **how)
    names = ("context_positions", "context_slots", "positions", "slot_mapping", "sampled_rows")
    return dict(zip(names, (*before, *rows, sampled), strict=True))


@ENGINE.adapts(_FILE, _KERNEL, operation="position_ids", dialect=_DRAFTED, domain=_UNPADDED)
def expanded_dflash_positions(kernel: Any) -> Callable[..., dict[str, Tensor]]:
    """Positions of drafts and of the tokens before, and the rows of the drafts."""

    def launch(
        num_rejected: Tensor,
        starts_before: Tensor,
        positions_before: Tensor,
        block_table: Tensor,
        block_size: int,
        max_query_len: int,
    ) -> dict[str, Tensor]:
        sizes = (block_size, max_query_len)
        found = _expanded(kernel, num_rejected, starts_before, positions_before, block_table, sizes)
        return {name: found[name] for name in ("positions", "context_positions", "sampled_rows")}

    return launch


@ENGINE.adapts(_FILE, _KERNEL, operation="slot_mapping", dialect=_DRAFTED, domain=_UNPADDED)
def expanded_dflash_slots(kernel: Any) -> Callable[..., dict[str, Tensor]]:
    """The slots of both."""

    def launch(
        num_rejected: Tensor,
        starts_before: Tensor,
        positions_before: Tensor,
        block_table: Tensor,
        block_size: int,
        max_query_len: int,
    ) -> dict[str, Tensor]:
        sizes = (block_size, max_query_len)
        found = _expanded(kernel, num_rejected, starts_before, positions_before, block_table, sizes)
        return {name: found[name] for name in ("slot_mapping", "context_slots")}

    return launch
