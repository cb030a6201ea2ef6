"""Kernels whose threads load what others of the program store, with a barrier between and without."""

from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl

from cumae.properties.tests.functions.wrong_on_purpose import right_positions


@triton.jit
def _reversed(
    right: tl.tensor, out: tl.tensor, words: tl.tensor, count: tl.tensor, TILE: tl.constexpr
) -> None:
    """A block is stored in order and loaded in reverse."""
    o_token = tl.arange(0, TILE)
    o_other = TILE - 1 - o_token
    tl.store(words + o_token, tl.load(right + o_token, mask=o_token < count, other=0))
    tl.store(out + o_other, tl.load(words + o_other), mask=o_other < count)


@triton.jit
def _scattered(
    right: tl.tensor, out: tl.tensor, words: tl.tensor, count: tl.tensor, TILE: tl.constexpr
) -> None:
    """A block is scattered by a permutation and loaded in order: out[i] comes from another lane."""
    o_token = tl.arange(0, TILE)
    place = (o_token * 37 + 5) % TILE
    position = tl.load(right + place, mask=place < count, other=0)
    tl.store(words + place, position)
    tl.store(out + o_token, tl.load(words + o_token), mask=o_token < count)


@triton.jit
def _one_for_all(
    right: tl.tensor, out: tl.tensor, words: tl.tensor, count: tl.tensor, TILE: tl.constexpr
) -> None:
    """One thread stores a number that all threads load."""
    o_token = tl.arange(0, TILE)
    m_token = o_token < count
    tl.store(words, count)
    first = tl.load(words + o_token * 0)
    position = tl.load(right + o_token, mask=m_token, other=0)
    tl.store(out + o_token, position + first - count, mask=m_token)


@triton.jit
def _one_behind(
    right: tl.tensor, out: tl.tensor, words: tl.tensor, count: tl.tensor, TILE: tl.constexpr
) -> None:
    """A block is stored one element further and loaded from there by the neighbour's lane."""
    o_token = tl.arange(0, TILE)
    tl.store(words + o_token, tl.load(right + o_token, mask=o_token < count, other=0))
    position = tl.load(words + o_token + 1, mask=o_token + 1 < TILE, other=0)
    tl.store(out + o_token + 1, position, mask=o_token + 1 < count)
    tl.store(out, tl.load(right))


@triton.jit
def _turned(right: tl.tensor, out: tl.tensor, words: tl.tensor, count: tl.tensor, TILE: tl.constexpr) -> None:
    """Right: a block is stored by rows and loaded turned, and each thread loads its own elements."""
    o_row, o_column = tl.arange(0, 8), tl.arange(0, TILE // 8)
    by_rows = o_row[:, None] * (TILE // 8) + o_column[None, :]
    by_columns = o_row[None, :] * (TILE // 8) + o_column[:, None]
    tl.store(words + by_rows, tl.load(right + by_rows, mask=by_rows < count, other=0))
    position = tl.load(words + by_columns)
    tl.store(out + by_columns, position, mask=by_columns < count)


@triton.jit
def _reversed_behind_a_barrier(
    right: tl.tensor, out: tl.tensor, words: tl.tensor, count: tl.tensor, TILE: tl.constexpr
) -> None:
    """Right: a barrier stands between the store and the load."""
    o_token = tl.arange(0, TILE)
    o_other = TILE - 1 - o_token
    tl.store(words + o_token, tl.load(right + o_token, mask=o_token < count, other=0))
    tl.debug_barrier()
    tl.store(out + o_other, tl.load(words + o_other), mask=o_other < count)


@triton.jit
def _reversed_behind_a_sum(
    right: tl.tensor, out: tl.tensor, words: tl.tensor, count: tl.tensor, TILE: tl.constexpr
) -> None:
    """Right: the sum between the store and the load is compiled with a barrier."""
    o_token = tl.arange(0, TILE)
    o_other = TILE - 1 - o_token
    position = tl.load(right + o_token, mask=o_token < count, other=0)
    tl.store(words + o_token, position)
    none = tl.minimum(tl.sum(position, 0), 0)
    tl.store(out + o_other, tl.load(words + o_other + none), mask=o_other < count)


@triton.jit
def _changes_its_own(
    right: tl.tensor, out: tl.tensor, words: tl.tensor, count: tl.tensor, TILE: tl.constexpr
) -> None:
    """Right: each lane loads, changes and stores its own element, twice."""
    o_token = tl.arange(0, TILE)
    tl.store(words + o_token, tl.load(right + o_token, mask=o_token < count, other=0) - 1)
    tl.store(words + o_token, tl.load(words + o_token) + 1)
    tl.store(out + o_token, tl.load(words + o_token), mask=o_token < count)


@triton.jit
def _unused(right: tl.tensor, out: tl.tensor, words: tl.tensor, count: tl.tensor, TILE: tl.constexpr) -> None:
    """Right: nothing depends on what other lanes have stored."""
    o_token = tl.arange(0, TILE)
    tl.store(words + o_token, o_token + 1)
    missed = tl.load(words + TILE - 1 - o_token) * 0
    position = tl.load(right + o_token, mask=o_token < count, other=0)
    tl.store(out + o_token, position + missed, mask=o_token < count)


@triton.jit
def _moved_down(
    right: tl.tensor, out: tl.tensor, words: tl.tensor, count: tl.tensor, TILE: tl.constexpr
) -> None:
    """A block is moved in its place: a lane stores to the element that its neighbour loads."""
    o_token = tl.arange(0, TILE)
    tl.store(words + o_token + 1, tl.load(right + o_token, mask=o_token < count, other=0))
    tl.debug_barrier()
    tl.store(words + o_token, tl.load(words + o_token + 1))
    tl.debug_barrier()
    tl.store(out + o_token, tl.load(words + o_token), mask=o_token < count)


@triton.jit
def _reversed_in_place(
    right: tl.tensor, out: tl.tensor, words: tl.tensor, count: tl.tensor, TILE: tl.constexpr
) -> None:
    """A block is reversed in its place."""
    o_token = tl.arange(0, TILE)
    o_other = TILE - 1 - o_token
    tl.store(words + o_token, tl.load(right + o_token, mask=o_token < count, other=0))
    tl.debug_barrier()
    tl.store(words + o_token, tl.load(words + o_other))
    tl.debug_barrier()
    tl.store(out + o_other, tl.load(words + o_token), mask=o_other < count)


@triton.jit
def _cleared_too_early(
    right: tl.tensor, out: tl.tensor, words: tl.tensor, count: tl.tensor, TILE: tl.constexpr
) -> None:
    """One thread clears a number that all threads load before."""
    o_token = tl.arange(0, TILE)
    tl.store(words, count)
    tl.debug_barrier()
    first = tl.load(words + o_token * 0)
    tl.store(words, count * 0)
    position = tl.load(right + o_token, mask=o_token < count, other=0)
    tl.store(out + o_token, position + first - count, mask=o_token < count)


@triton.jit
def _moved_behind_a_barrier(
    right: tl.tensor, out: tl.tensor, words: tl.tensor, count: tl.tensor, TILE: tl.constexpr
) -> None:
    """Right: all threads have loaded before one of them stores."""
    o_token = tl.arange(0, TILE)
    tl.store(words + o_token + 1, tl.load(right + o_token, mask=o_token < count, other=0))
    tl.debug_barrier()
    position = tl.load(words + o_token + 1)
    tl.debug_barrier()
    tl.store(words + o_token, position)
    tl.debug_barrier()
    tl.store(out + o_token, tl.load(words + o_token), mask=o_token < count)


@triton.jit
def _counted_by_all(
    right: tl.tensor, out: tl.tensor, words: tl.tensor, count: tl.tensor, TILE: tl.constexpr
) -> None:
    """All threads load a number and store its successor."""
    o_token = tl.arange(0, TILE)
    tl.store(words, count)
    tl.debug_barrier()
    first = tl.load(words + o_token * 0)
    tl.store(words + o_token * 0, first + 1)
    position = tl.load(right + o_token, mask=o_token < count, other=0)
    tl.store(out + o_token, position + first - count, mask=o_token < count)


@triton.jit
def _turned_in_place(
    right: tl.tensor, out: tl.tensor, words: tl.tensor, count: tl.tensor, TILE: tl.constexpr
) -> None:
    """Right: a square is turned in its place, and the change of layout between has a barrier."""
    o_token, o_side = tl.arange(0, TILE), tl.arange(0, 32)
    tl.store(words + o_token, tl.load(right + o_token, mask=o_token < count, other=0))
    tl.debug_barrier()
    by_rows = o_side[:, None] * 32 + o_side[None, :]
    by_columns = o_side[None, :] * 32 + o_side[:, None]
    tl.store(words + by_columns, tl.load(words + by_rows))
    tl.debug_barrier()
    place = tl.where(o_token < 1024, o_token % 32 * 32 + o_token // 32, o_token)
    tl.store(out + o_token, tl.load(words + place), mask=o_token < count)


@triton.jit
def _moved_to_others(
    right: tl.tensor, out: tl.tensor, words: tl.tensor, count: tl.tensor, TILE: tl.constexpr
) -> None:
    """Right: a lane stores to the element that its neighbour has loaded, but the same number."""
    o_token = tl.arange(0, TILE)
    missed = tl.load(words + o_token + 1)
    tl.store(words + o_token, missed)
    position = tl.load(right + o_token, mask=o_token < count, other=0)
    tl.store(out + o_token, position, mask=o_token < count)


def in_one_program(kernel: Any, *, least: int = 32, **options: Any) -> Callable[..., None]:
    """Return a function that launches a kernel as one program of all tokens, with words that are 0.

    ``least``: the smallest tile.
    """

    def launched(
        token_to_request: torch.Tensor,
        cu_seqlens_q: torch.Tensor,
        context_lens: torch.Tensor,
        position_ids: torch.Tensor,
    ) -> None:
        right = right_positions(token_to_request, cu_seqlens_q, context_lens)
        if right.numel():
            tile = max(least, triton.next_power_of_2(right.numel()))
            words = torch.zeros(2 * tile, dtype=torch.int64, device=right.device)
            kernel[(1,)](right, position_ids, words, right.numel(), TILE=tile, **options)

    launched.__name__ = kernel.__name__.removeprefix("_")
    return launched


reversed_block = in_one_program(_reversed)
scattered = in_one_program(_scattered)
one_for_all = in_one_program(_one_for_all)
one_behind = in_one_program(_one_behind)
WRONG = (reversed_block, scattered, one_for_all, one_behind)
"""Loads that can miss an earlier store."""

moved_down = in_one_program(_moved_down)
reversed_in_place = in_one_program(_reversed_in_place)
cleared_too_early = in_one_program(_cleared_too_early)
counted_by_all = in_one_program(_counted_by_all)
OVERTAKEN = (moved_down, reversed_in_place, cleared_too_early, counted_by_all)
"""Loads that can find a later store."""

behind_a_barrier = in_one_program(_reversed_behind_a_barrier)
behind_a_sum = in_one_program(_reversed_behind_a_sum)
changes_its_own = in_one_program(_changes_its_own)
unused = in_one_program(_unused)
turned = in_one_program(_turned)
in_one_warp = in_one_program(_reversed, num_warps=1)
moved_behind_a_barrier = in_one_program(_moved_behind_a_barrier)
moved_in_one_warp = in_one_program(_moved_down, num_warps=1)
moved_to_others = in_one_program(_moved_to_others)
turned_in_place = in_one_program(_turned_in_place, least=1024)
RIGHT = (behind_a_barrier, behind_a_sum, changes_its_own, unused, turned, in_one_warp)
RIGHT_IN_PLACE = (moved_behind_a_barrier, moved_in_one_warp, moved_to_others, turned_in_place)
