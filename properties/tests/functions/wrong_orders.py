"""Kernels that are right if one program runs after the other, in any order, and wrong if they take turns."""

from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl

from cumae.properties.tests.functions.wrong_on_purpose import right_positions


@triton.jit
def _copy(right: tl.tensor, out: tl.tensor, i_tile: tl.tensor, count: tl.tensor, TILE: tl.constexpr) -> None:
    o_token = i_tile * TILE + tl.arange(0, TILE)
    m_token = o_token < count
    tl.store(out + o_token, tl.load(right + o_token, mask=m_token, other=0), mask=m_token)


@triton.jit
def _copies(right: tl.tensor, out: tl.tensor, words: tl.tensor, count: tl.tensor, TILE: tl.constexpr) -> None:
    _copy(right, out, tl.program_id(0), count, TILE)


@triton.jit
def _waits_for_nobody(
    right: tl.tensor, out: tl.tensor, words: tl.tensor, count: tl.tensor, TILE: tl.constexpr
) -> None:
    """Each program waits for a flag of the next one, and the last one for a flag that nobody sets."""
    i_tile = tl.program_id(0)
    while tl.atomic_add(words + i_tile, 0) == 0:
        pass
    tl.atomic_xchg(words + i_tile - 1, 1, mask=i_tile > 0)
    _copy(right, out, i_tile, count, TILE)


@triton.jit
def _reads_then_takes(
    right: tl.tensor, out: tl.tensor, words: tl.tensor, count: tl.tensor, TILE: tl.constexpr
) -> None:
    """A program reads the next tile with one atomic and takes it with another."""
    i_tile = tl.atomic_add(words, 0)
    tl.atomic_add(words, 1)
    _copy(right, out, i_tile, count, TILE)


@triton.jit
def _counts_before_it_adds(
    right: tl.tensor, out: tl.tensor, words: tl.tensor, count: tl.tensor, TILE: tl.constexpr
) -> None:
    """A program counts as done before its share is added; the last one uses the sum."""
    _copy(right, out, tl.program_id(0), count - 1, TILE)
    before = tl.atomic_add(words, 1)
    tl.atomic_add(words + 1, 1)
    if before == tl.num_programs(0) - 1:
        missing = tl.num_programs(0) - tl.atomic_add(words + 1, 0)
        tl.store(out + count - 1, tl.load(right + count - 1) + missing)


@triton.jit
def _reads_before_the_flag(
    right: tl.tensor, out: tl.tensor, words: tl.tensor, count: tl.tensor, TILE: tl.constexpr
) -> None:
    """A program reads what its neighbour has left, and then the flag that says whether it has."""
    i_tile = tl.program_id(0)
    before = tl.atomic_add(words + 2 * i_tile, 0)
    if tl.atomic_add(words + 2 * i_tile + 1, 0) == 0:
        before = i_tile
    tl.atomic_xchg(words + 2 * i_tile + 2, i_tile + 1)
    tl.atomic_xchg(words + 2 * i_tile + 3, 1)
    _copy(right, out, before, count, TILE)


@triton.jit
def _sets_the_flag_first(
    right: tl.tensor, out: tl.tensor, words: tl.tensor, count: tl.tensor, TILE: tl.constexpr
) -> None:
    """A program sets its flag, and then leaves what the flag promises."""
    i_tile = tl.program_id(0)
    before = i_tile
    if tl.atomic_add(words + 2 * i_tile + 1, 0) == 1:
        before = tl.atomic_add(words + 2 * i_tile, 0)
    tl.atomic_xchg(words + 2 * i_tile + 3, 1)
    tl.atomic_xchg(words + 2 * i_tile + 2, i_tile + 1)
    _copy(right, out, before, count, TILE)


@triton.jit
def _adds_in_two_steps(
    right: tl.tensor, out: tl.tensor, words: tl.tensor, count: tl.tensor, TILE: tl.constexpr
) -> None:
    """A counter is read by one atomic and exchanged by another, and an update is lost."""
    i_tile = tl.atomic_add(words, 0)
    tl.atomic_xchg(words, i_tile + 1)
    _copy(right, out, i_tile, count, TILE)


@triton.jit
def _unlocks_too_early(
    right: tl.tensor, out: tl.tensor, words: tl.tensor, count: tl.tensor, TILE: tl.constexpr
) -> None:
    """The lock is released between the two halves of an update."""
    while tl.atomic_cas(words + 1, 0, 1) == 1:
        pass
    i_tile = tl.atomic_add(words, 0)
    tl.atomic_xchg(words + 1, 0)
    tl.atomic_xchg(words, i_tile + 1)
    _copy(right, out, i_tile, count, TILE)


@triton.jit
def _looks_then_locks(
    right: tl.tensor, out: tl.tensor, words: tl.tensor, count: tl.tensor, TILE: tl.constexpr
) -> None:
    """Two programs that both find the lock free both take it."""
    while tl.atomic_add(words + 1, 0) == 1:
        pass
    tl.atomic_xchg(words + 1, 1)
    i_tile = tl.atomic_add(words, 0)
    tl.atomic_xchg(words, i_tile + 1)
    tl.atomic_xchg(words + 1, 0)
    _copy(right, out, i_tile, count, TILE)


@triton.jit
def _locks_crosswise(
    right: tl.tensor, out: tl.tensor, words: tl.tensor, count: tl.tensor, TILE: tl.constexpr
) -> None:
    """Neighbours take two locks in opposite orders, and can wait for each other for ever."""
    i_tile = tl.program_id(0)
    while tl.atomic_cas(words + i_tile % 2, 0, 1) == 1:
        pass
    while tl.atomic_cas(words + 1 - i_tile % 2, 0, 1) == 1:
        pass
    _copy(right, out, i_tile, count, TILE)
    tl.atomic_xchg(words, 0)
    tl.atomic_xchg(words + 1, 0)


@triton.jit
def _begins_before_it_is_ready(
    right: tl.tensor, out: tl.tensor, words: tl.tensor, count: tl.tensor, TILE: tl.constexpr
) -> None:
    """One program prepares a value for all; the others do not wait until it is there."""
    if tl.atomic_cas(words, 0, 1) == 0:
        tl.atomic_xchg(words + 1, 7)
    seed = tl.atomic_add(words + 1, 0)
    _copy(right, out, tl.program_id(0) + 7 - seed, count, TILE)


@triton.jit
def _places(lens: tl.tensor, words: tl.tensor, starts: tl.tensor) -> None:
    length = tl.load(lens + tl.program_id(0))
    row = tl.atomic_add(words, 1)
    tl.store(starts + row, tl.atomic_add(words + 1, length))


@triton.jit
def _copy_by_starts(
    right: tl.tensor, out: tl.tensor, starts: tl.tensor, count: tl.tensor, TILE: tl.constexpr
) -> None:
    i_row = tl.program_id(0)
    start, stop = tl.load(starts + i_row), tl.load(starts + i_row + 1)
    o_token = start + tl.arange(0, TILE)
    m_token = o_token < stop
    tl.store(out + o_token, tl.load(right + o_token, mask=m_token, other=0), mask=m_token)


def over_tiles(kernel: Any) -> Callable[..., None]:
    """Return a function that launches a kernel over tiles of four tokens, with words that are 0."""

    def launched(
        token_to_request: torch.Tensor,
        cu_seqlens_q: torch.Tensor,
        context_lens: torch.Tensor,
        position_ids: torch.Tensor,
    ) -> None:
        right = right_positions(token_to_request, cu_seqlens_q, context_lens)
        if right.numel():
            num_tiles = triton.cdiv(right.numel(), 4)
            words = torch.zeros(2 * num_tiles + 4, dtype=torch.int32, device=right.device)
            kernel[(num_tiles,)](right, position_ids, words, right.numel(), TILE=4)

    launched.__name__ = kernel.__name__.removeprefix("_")
    return launched


copies = over_tiles(_copies)
waits_for_nobody = over_tiles(_waits_for_nobody)
reads_then_takes = over_tiles(_reads_then_takes)
counts_before_it_adds = over_tiles(_counts_before_it_adds)
reads_before_the_flag = over_tiles(_reads_before_the_flag)
sets_the_flag_first = over_tiles(_sets_the_flag_first)
adds_in_two_steps = over_tiles(_adds_in_two_steps)
unlocks_too_early = over_tiles(_unlocks_too_early)
looks_then_locks = over_tiles(_looks_then_locks)
locks_crosswise = over_tiles(_locks_crosswise)
begins_before_it_is_ready = over_tiles(_begins_before_it_is_ready)


def counts_rows_and_tokens_apart(
    token_to_request: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    context_lens: torch.Tensor,
    position_ids: torch.Tensor,
) -> None:
    """A row is reserved with one atomic and its tokens with another: starts of rows may fall."""
    right = right_positions(token_to_request, cu_seqlens_q, context_lens)
    if right.numel():
        num_rows = triton.cdiv(right.numel(), 4)
        lens = torch.full((num_rows,), 4, dtype=torch.int32, device=right.device)
        lens[-1] = right.numel() - 4 * (num_rows - 1)
        words = torch.zeros(2, dtype=torch.int32, device=right.device)
        starts = torch.full((num_rows + 1,), right.numel(), dtype=torch.int32, device=right.device)
        _places[(num_rows,)](lens, words, starts)
        _copy_by_starts[(num_rows,)](right, position_ids, starts, right.numel(), TILE=4)


WRONG = (
    reads_then_takes,
    counts_before_it_adds,
    reads_before_the_flag,
    sets_the_flag_first,
    adds_in_two_steps,
    unlocks_too_early,
    looks_then_locks,
    locks_crosswise,
    begins_before_it_is_ready,
    counts_rows_and_tokens_apart,
)
