"""Running sums over tiles of entries, for more entries than one program can add up in good time.

A first launch writes the sum of each tile at the tile's last entry: those numbered TILE - 1, 2 * TILE - 1
and so on, and the last of all. `launch_carries` turns them into running sums. Every program of a later launch
then finds the tile that it needs without adding up those before it.
"""

import torch
import triton
import triton.language as tl

from cumae.gpu_impl.early_launch import early, wait_for_kernel_before

TILES_PER_CHUNK = 1024
TILES_PER_ROUND = tl.constexpr(1024)


@triton.jit
def first_of_tile(i_tile: tl.tensor, TILE: tl.constexpr) -> tl.tensor:
    """Return the first entry of a tile, int32."""
    return (i_tile.to(tl.int64) * TILE).to(tl.int32)


@triton.jit
def end_of_tile(i_tile: tl.tensor, num_entries: tl.tensor, TILE: tl.constexpr) -> tl.tensor:
    """Return the last entry of a tile."""
    return tl.minimum((i_tile.to(tl.int64) + 1) * TILE, num_entries) - 1


@triton.jit
def carry_over_ends(
    sums: tl.tensor, num_entries: tl.tensor, TILE: tl.constexpr, CHUNK: tl.constexpr
) -> tl.tensor:
    """Turn the sums at the ends of tiles into running sums, and return the last."""
    num_tiles = (num_entries + TILE - 1) // TILE
    carry = tl.full((), 0, sums.dtype.element_ty)
    for i_chunk in range(0, num_tiles, CHUNK):
        o_tile = i_chunk + tl.arange(0, CHUNK)
        m_tile = o_tile < num_tiles
        o_end = end_of_tile(o_tile, num_entries, TILE)
        sum_ = carry + tl.cumsum(tl.load(sums + o_end, mask=m_tile, other=0))
        carry = tl.max(sum_)
        tl.store(sums + o_end, sum_, mask=m_tile)
    return carry


@triton.jit
def start_of_tile(sums: tl.tensor, i_tile: tl.tensor, TILE: tl.constexpr) -> tl.tensor:
    """Return the running sum before a tile."""
    return tl.load(sums + (i_tile.to(tl.int64) * TILE - 1), mask=i_tile > 0, other=0)


@triton.jit
def find_tile(sums: tl.tensor, num_entries: tl.tensor, value: tl.tensor, TILE: tl.constexpr) -> tl.tensor:
    """Return the first tile whose running sum is above a value, and the number of tiles if there is none."""
    num_tiles = (num_entries + TILE - 1) // TILE
    i_tile = tl.full((), 0, tl.int32)
    for i_chunk in range(0, num_tiles, TILES_PER_ROUND):
        o_tile = i_chunk + tl.arange(0, TILES_PER_ROUND)
        m_tile = o_tile < num_tiles
        sum_ = tl.load(sums + end_of_tile(o_tile, num_entries, TILE), mask=m_tile, other=0)
        i_tile += tl.sum((m_tile & (sum_ <= value)).to(tl.int32))
    return i_tile


@triton.jit(do_not_specialize=["num_entries"])
def _carry_over(
    first: tl.tensor,
    second: tl.tensor,
    num_entries: tl.tensor,
    HAS_SECOND: tl.constexpr,
    TILE: tl.constexpr,
    CHUNK: tl.constexpr,
    BEGINS_EARLY: tl.constexpr,
) -> None:
    wait_for_kernel_before(BEGINS_EARLY)
    carry_over_ends(first, num_entries, TILE, CHUNK)
    if HAS_SECOND:
        carry_over_ends(second, num_entries, TILE, CHUNK)


def launch_carries(sums: torch.Tensor, second: torch.Tensor | None, num_entries: int, tile: int) -> None:
    """Turn the sums at the ends of the tiles of one or two lists into running sums; checks nothing."""
    _carry_over[(1,)](
        sums,
        sums if second is None else second,
        num_entries,
        HAS_SECOND=second is not None,
        TILE=tile,
        CHUNK=TILES_PER_CHUNK,
        **early(sums.device),
    )
