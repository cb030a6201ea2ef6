"""The groups that a token reads: positions of those that it selects, and of those behind the last one."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from cumae.oracle import GARBAGE, Case, Inputs
from cumae.properties.cases.domain import Domain
from cumae.properties.dialects import Dialect, Input, Ints, Output
from cumae.properties.dialects.held import ints
from cumae.properties.engines.pages import having, longest, slots_of

Tensor = torch.Tensor
STEPS = Domain(min_requests=1, min_tokens=1, padding="none", captured=False, strided=False)
_CHOICES = ((4, 1, 16), (2, 1, 3, 16), (2, 1, 4), (1, 0, 2, 3), (2, 1, 3))


class Sizes(NamedTuple):
    """Tokens of a group, the most groups that a token selects, ranks, this one, and its groups in a row."""

    ratio: int
    budget: int
    ranks: int
    rank: int
    run: int


class Lists(NamedTuple):
    """How a function lists the positions.

    ``is_sharded``: those of one rank. ``keeps_columns``: groups have their columns, also those that are free.
    ``free_id``: what stands for a group that a token does not select. ``behind``: what stands behind as many
    columns as positions may take, given how many they are. ``entry``: the entry of a token's position.
    """

    is_sharded: bool = False
    keeps_columns: bool = False
    free_id: Any = GARBAGE
    behind: Callable[[int], list[int]] = lambda _: []
    entry: Callable[[Inputs, int, int], int] = lambda _, owner, position: position


def by_two(expand_groups: Any, append_tail: Any) -> Callable[..., dict[str, Tensor]]:
    """Return a function that lists selected groups by one function, and the last positions by another."""

    def expand(
        group_ids: Tensor, are_selected: Tensor, keys_seen: Tensor, eligible: Tensor, group_size: int
    ) -> dict[str, Tensor]:
        topk = group_ids.shape[1] * group_size
        listed = expand_groups(group_ids, are_selected, topk, group_size)
        return {"selected_positions": append_tail(listed, keys_seen, eligible, group_size)}

    return expand


def _sizes_of(case: Case, is_sharded: bool) -> Sizes:
    """Return sizes by numbers of the case: no options of this operation are such."""
    number, picked = case.batch.num_tokens + 7 * len(case.batch.requests), list[int]()
    for choices in _CHOICES:
        picked.append(choices[number % len(choices)])
        number //= len(choices)
    ratio, budget, ranks, rank, run = picked
    return Sizes(ratio, budget, ranks, rank % ranks, run) if is_sharded else Sizes(ratio, budget, 1, 0, 1)


def _tokens(case: Case) -> list[tuple[int, int]]:
    """Return owner and position of each token."""
    requests = enumerate(case.batch.requests)
    return [(b, p) for b, request in requests for p in range(request.context_len, request.seq_len)]


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


def _row(sizes: Sizes, how: Lists, position: int) -> list[int]:
    """Return a token's positions, -1 in free columns, and what stands behind them."""
    found = [p for group in _groups(sizes, position) for p in _of_group(sizes, group, sizes.ratio)]
    if how.keeps_columns:
        found += [-1] * (sizes.ratio * sizes.budget - len(found))
    found += _of_group(sizes, *divmod(position + 1, sizes.ratio))
    return found + [-1] * (sizes.ratio * (sizes.budget + 1) - 1 - len(found))


def with_groups(dialect: Dialect, how: Lists) -> Dialect:
    """Return the dialect with selected groups, and the lists of their positions as the output."""

    def of(case: Case) -> Sizes:
        return _sizes_of(case, how.is_sharded)

    def selected(inputs: Inputs, entry: Callable[[int], Any], free: Any, dtype: str) -> Ints:
        sizes = of(inputs.case)
        rows = [[entry(group) for group in _groups(sizes, p)] for _, p in _tokens(inputs.case)]
        padded = [[*row, *[free] * (sizes.budget - len(row))] for row in rows]
        return ints(padded, dtype, inputs.case.layout.garbage, width=sizes.budget)

    def of_tokens(value: Callable[[Sizes, int], int], dtype: str) -> Input:
        def hold(inputs: Inputs) -> Ints:
            sizes = of(inputs.case)
            values = [value(sizes, position) for _, position in _tokens(inputs.case)]
            return ints(values, dtype, inputs.case.layout.garbage)

        return Input(hold)

    def slots(inputs: Inputs) -> Ints:
        rows, width = slots_of(inputs.case), longest(inputs.case)
        table = [[*rows[owner], *[GARBAGE] * (width - len(rows[owner]))] for owner, _ in _tokens(inputs.case)]
        return ints(table, "int32", inputs.case.layout.garbage, width=width)

    def starts(inputs: Inputs) -> Ints:
        firsts = [inputs["cu_seqlens_k"][owner] for owner, _ in _tokens(inputs.case)]
        return ints(firsts, "int32", inputs.case.layout.garbage)

    def lists(_: Any, inputs: Inputs) -> list[int]:
        found = list[int]()
        for owner, position in _tokens(inputs.case):
            row = _row(of(inputs.case), how, position)
            found += [how.entry(inputs, owner, p) if p >= 0 else -1 for p in row]
            found += how.behind(sum(p >= 0 for p in row))
        return found

    def shape(case: Case) -> tuple[int, int]:
        sizes = of(case)
        return case.batch.num_tokens, sizes.ratio * (sizes.budget + 1) - 1 + len(how.behind(0))

    return having(
        dialect,
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
        group_ids=Input(lambda inputs: selected(inputs, lambda group: group, how.free_id, "int32")),
        are_selected=Input(lambda inputs: selected(inputs, lambda _: 1, 0, "bool")),
        eligible=of_tokens(lambda sizes, position: (position + 1) // sizes.ratio, "int32"),
        places=of_tokens(lambda _, position: position, "int64"),
        keys_seen=of_tokens(lambda _, position: position + 1, "int32"),
        token_slots=Input(slots),
        first_keys=Input(starts),
        **{
            name: lambda case, i=i: of(case)[i]
            for i, name in ((0, "group_size"), (2, "num_ranks"), (3, "own_rank"), (4, "groups_in_a_row"))
        },
    )
