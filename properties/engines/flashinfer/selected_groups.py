"""The positions that a token reads: those of its selected groups, and those behind the last whole one."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import triton

from cumae.oracle import GARBAGE, Case, Inputs
from cumae.properties.cases.domain import Domain
from cumae.properties.dialects import CUMAE, Dialect, Input, Ints, Output
from cumae.properties.dialects.held import ints
from cumae.properties.engines.flashinfer.engine import ENGINE
from cumae.properties.engines.pages import having

Tensor = torch.Tensor
_KERNELS = "flashinfer/experimental/b12x/attention/qsa/_kernels.py"
_STEPS = Domain(min_requests=1, min_tokens=1, padding="none", captured=False, strided=False)
_CHOICES = ((4, 1, 16), (2, 1, 3, 16), (2, 1, 4), (1, 0, 2, 3), (2, 1, 3))


class Sizes(NamedTuple):
    """Tokens of a group, the most groups that a token selects, ranks, this one, and its groups in a row."""

    ratio: int
    budget: int
    ranks: int
    rank: int
    run: int


def _sizes_of(case: Case, is_sharded: bool) -> Sizes:
    """Return sizes by numbers of the case: no options of this operation are such."""
    number, picked = case.batch.num_tokens + 7 * len(case.batch.requests), list[int]()
    for choices in _CHOICES:
        picked.append(choices[number % len(choices)])
        number //= len(choices)
    ratio, budget, ranks, rank, run = picked
    return Sizes(ratio, budget, ranks, rank % ranks, run) if is_sharded else Sizes(ratio, budget, 1, 0, 1)


def _positions(case: Case) -> list[int]:
    return [p for request in case.batch.requests for p in range(request.context_len, request.seq_len)]


def _groups(sizes: Sizes, position: int) -> list[int]:
    """Return the groups that a token selects: the last whole ones, the last first."""
    whole = (position + 1) // sizes.ratio
    return [whole - 1 - i for i in range(min(whole, sizes.budget))]


def _of_group(sizes: Sizes, group: int, count: int) -> list[int]:
    """Return a group's first positions as its rank numbers them, -1 on every other rank."""
    turn, place = divmod(group, sizes.run)
    if turn % sizes.ranks != sizes.rank:
        return [-1] * count
    first = (turn // sizes.ranks * sizes.run + place) * sizes.ratio
    return list(range(first, first + count))


def _list(sizes: Sizes, position: int, is_sharded: bool) -> list[int]:
    """Return a token's positions. Sharded: a group keeps its columns, those that none selects are free."""
    found = [p for group in _groups(sizes, position) for p in _of_group(sizes, group, sizes.ratio)]
    if is_sharded:
        found += [-1] * (sizes.ratio * sizes.budget - len(found))
    found += _of_group(sizes, *divmod(position + 1, sizes.ratio))
    return found + [-1] * (sizes.ratio * (sizes.budget + 1) - len(found))


def _with_groups(is_sharded: bool) -> Dialect:
    def selected(inputs: Inputs) -> Ints:
        case, sizes = inputs.case, _sizes_of(inputs.case, is_sharded)
        free = -1 if is_sharded else GARBAGE
        rows = [_groups(sizes, position) for position in _positions(case)]
        padded = [[*row, *[free] * (sizes.budget - len(row))] for row in rows]
        return ints(padded, "int32", case.layout.garbage, width=sizes.budget)

    def of_tokens(value: Callable[[Sizes, int], int], dtype: str) -> Input:
        def hold(inputs: Inputs) -> Ints:
            sizes = _sizes_of(inputs.case, is_sharded)
            values = [value(sizes, position) for position in _positions(inputs.case)]
            return ints(values, dtype, inputs.case.layout.garbage)

        return Input(hold)

    def lists(_: Any, inputs: Inputs) -> list[int]:
        sizes = _sizes_of(inputs.case, is_sharded)
        return [p for position in _positions(inputs.case) for p in _list(sizes, position, is_sharded)]

    def shape(case: Case) -> tuple[int, int]:
        sizes = _sizes_of(case, is_sharded)
        return case.batch.num_tokens, sizes.ratio * (sizes.budget + 1)

    return having(
        CUMAE,
        "window_slots",
        Output(
            "selected_positions",
            "int32",
            "position_of_group",
            "the positions of the selected groups, then those behind the last whole group, -1 elsewhere",
            follows="window_slots",
            shape=shape,
            expect=lists,
        ),
        group_ids=Input(selected),
        eligible=of_tokens(lambda sizes, position: (position + 1) // sizes.ratio, "int32"),
        places=of_tokens(lambda _, position: position, "int64"),
        **{
            name: lambda case, i=i: _sizes_of(case, is_sharded)[i]
            for i, name in ((0, "group_size"), (2, "num_ranks"), (3, "own_rank"), (4, "groups_in_a_row"))
        },
    )


@ENGINE.adapts(
    _KERNELS,
    "_expand_selected_groups_kernel",
    operation="window_slots",
    dialect=_with_groups(is_sharded=False),
    domain=_STEPS,
)
def expanded_groups(kernel: Any) -> Callable[..., None]:
    """On one rank, without columns between."""

    def launch(
        group_ids: Tensor, eligible: Tensor, places: Tensor, group_size: int, selected_positions: Tensor
    ) -> None:
        (count, width), budget = selected_positions.shape, group_ids.shape[1]
        sizes = (budget, width, budget, group_size, width, 1, 0, group_size, triton.next_power_of_2(width))
        kernel[(count,)](group_ids, eligible, places, selected_positions, *sizes)

    return launch


@ENGINE.adapts(
    _KERNELS,
    "_expand_global_selected_groups_kernel",
    operation="window_slots",
    dialect=_with_groups(is_sharded=True),
    domain=_STEPS,
)
def expanded_groups_of_a_rank(kernel: Any) -> Callable[..., None]:
    """Those of one rank, each in the column that it has on all ranks."""

    def launch(
        group_ids: Tensor,
        places: Tensor,
        group_size: int,
        num_ranks: int,
        own_rank: int,
        groups_in_a_row: int,
        selected_positions: Tensor,
    ) -> None:
        (count, width), budget = selected_positions.shape, group_ids.shape[1]
        ranks = num_ranks, own_rank, groups_in_a_row * group_size
        sizes = (budget, width, budget, group_size, width, *ranks, triton.next_power_of_2(width))
        kernel[(count,)](group_ids, places, selected_positions, *sizes)

    return launch
