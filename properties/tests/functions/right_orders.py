"""Kernels whose programs share memory and are right in every order: no check may accuse them."""

import torch
import triton
import triton.language as tl

from cumae.fixtures.correct import selections
from cumae.properties.tests.functions.wrong_on_purpose import right_positions
from cumae.properties.tests.functions.wrong_orders import _copies, _copy, over_tiles


@triton.jit
def _takes_tickets(
    right: tl.tensor, out: tl.tensor, words: tl.tensor, count: tl.tensor, TILE: tl.constexpr
) -> None:
    _copy(right, out, tl.atomic_add(words, 1), count, TILE)


@triton.jit
def _looks_back(
    right: tl.tensor, out: tl.tensor, words: tl.tensor, count: tl.tensor, TILE: tl.constexpr
) -> None:
    """Decoupled look-back: a ticket, an inclusive sum a tile, and a wait for the tile before."""
    ticket = tl.atomic_add(words, 1, sem="acq_rel")
    first = tl.full((), 0, tl.int32)
    if ticket > 0:
        while tl.atomic_add(words + 2 * ticket, 0, sem="acquire") == 0:
            pass
        first = tl.load(words + 2 * ticket + 1)
    tl.store(words + 2 * ticket + 3, first + 1)
    tl.atomic_xchg(words + 2 * ticket + 2, 1, sem="release")
    _copy(right, out, first, count, TILE)


@triton.jit
def _waits_for_the_next(
    right: tl.tensor, out: tl.tensor, words: tl.tensor, count: tl.tensor, TILE: tl.constexpr
) -> None:
    """Right where all programs are resident, although the interpreter comes to the next one later."""
    i_tile = tl.program_id(0)
    if i_tile < tl.num_programs(0) - 1:
        while tl.atomic_add(words + i_tile + 1, 0) == 0:
            pass
    tl.atomic_xchg(words + i_tile, 1)
    _copy(right, out, i_tile, count, TILE)


@triton.jit
def _meets_at_a_barrier(
    right: tl.tensor, out: tl.tensor, words: tl.tensor, count: tl.tensor, TILE: tl.constexpr
) -> None:
    """Each program leaves its neighbour's tile number, and all wait until all have."""
    i_tile, num_tiles = tl.program_id(0), tl.num_programs(0)
    tl.store(words + 1 + (i_tile + 1) % num_tiles, (i_tile + 1) % num_tiles)
    tl.atomic_add(words, 1)
    while tl.atomic_add(words, 0) < num_tiles:
        pass
    _copy(right, out, tl.load(words + 1 + i_tile), count, TILE)


@triton.jit
def _last_one_adds_up(
    right: tl.tensor, out: tl.tensor, words: tl.tensor, count: tl.tensor, TILE: tl.constexpr
) -> None:
    i_tile, num_tiles = tl.program_id(0), tl.num_programs(0)
    _copy(right, out, i_tile, count - 1, TILE)
    tl.store(words + 1 + i_tile, 1)
    if tl.atomic_add(words, 1) == num_tiles - 1:
        total = tl.full((), 0, tl.int32)
        for i in range(0, num_tiles):
            total += tl.load(words + 1 + i)
        tl.store(out + count - 1, tl.load(right + count - 1) + total - num_tiles)


@triton.jit
def _all_store_the_same(
    right: tl.tensor, out: tl.tensor, words: tl.tensor, count: tl.tensor, TILE: tl.constexpr
) -> None:
    tl.store(words, 3)
    tl.store(out, tl.load(right))
    _copy(right, out, tl.program_id(0), count, TILE)


@triton.jit
def _uses_scratch(
    right: tl.tensor, out: tl.tensor, words: tl.tensor, count: tl.tensor, TILE: tl.constexpr
) -> None:
    i_tile = tl.program_id(0)
    tl.store(words + i_tile, i_tile)
    _copy(right, out, tl.load(words + i_tile), count, TILE)


@triton.jit
def _holds_a_lock(
    right: tl.tensor, out: tl.tensor, words: tl.tensor, count: tl.tensor, TILE: tl.constexpr
) -> None:
    while tl.atomic_cas(words + 1, 0, 1, sem="acquire") == 1:
        pass
    i_tile = tl.load(words)
    tl.store(words, i_tile + 1)
    tl.atomic_xchg(words + 1, 0, sem="release")
    _copy(right, out, i_tile, count, TILE)


@triton.jit
def _works_off_a_queue(
    right: tl.tensor, out: tl.tensor, words: tl.tensor, count: tl.tensor, TILE: tl.constexpr
) -> None:
    i_tile = tl.atomic_add(words, 1)
    while i_tile * TILE < count:
        _copy(right, out, i_tile, count, TILE)
        i_tile = tl.atomic_add(words, 1)


takes_tickets = over_tiles(_takes_tickets)
looks_back = over_tiles(_looks_back)
waits_for_the_next = over_tiles(_waits_for_the_next)
meets_at_a_barrier = over_tiles(_meets_at_a_barrier)
last_one_adds_up = over_tiles(_last_one_adds_up)
all_store_the_same = over_tiles(_all_store_the_same)
uses_scratch = over_tiles(_uses_scratch)
holds_a_lock = over_tiles(_holds_a_lock)
works_off_a_queue = over_tiles(_works_off_a_queue)


@triton.jit
def _longest(lens: tl.tensor, totals: tl.tensor, count: tl.tensor, TILE: tl.constexpr) -> None:
    o_token = tl.program_id(0) * TILE + tl.arange(0, TILE)
    length = tl.load(lens + o_token, mask=o_token < count, other=0)
    tl.atomic_max(totals, tl.max(length, 0))
    tl.atomic_add(totals + 1, tl.sum(length, 0))


def adds_up_by_atomics(
    token_to_request: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    context_lens: torch.Tensor,
    position_ids: torch.Tensor,
) -> None:
    """A maximum and a sum by atomics, used by what follows on the stream."""
    right = right_positions(token_to_request, cu_seqlens_q, context_lens)
    if right.numel():
        totals = torch.zeros(2, dtype=torch.int64, device=right.device)
        _longest[(triton.cdiv(right.numel(), 4),)](right, totals, right.numel(), TILE=4)
        position_ids.copy_(right + totals[0] - right.max() + totals[1] - right.sum())


def accesses_nothing(
    token_to_request: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    context_lens: torch.Tensor,
    position_ids: torch.Tensor,
) -> None:
    """Every access of three programs is masked."""
    right = right_positions(token_to_request, cu_seqlens_q, context_lens)
    if right.numel():
        _copies[(3,)](right, position_ids, right, 0, TILE=4)
        position_ids.copy_(right)


@triton.jit
def _append(
    slots: tl.tensor,
    compact_slots: tl.tensor,
    num_valid: tl.tensor,
    topk: tl.tensor,
    TILE: tl.constexpr,
) -> None:
    i_row, o_key = tl.program_id(0), tl.program_id(1) * TILE + tl.arange(0, TILE)
    slot = tl.load(slots + i_row * topk + o_key, mask=o_key < topk, other=-1)
    m_slot = slot >= 0
    taken = tl.atomic_add(num_valid + i_row, tl.sum(m_slot.to(tl.int32), 0))
    place = taken + tl.cumsum(m_slot.to(tl.int32), 0) - 1
    tl.store(compact_slots + i_row * topk + place, slot, mask=m_slot)


def appends_in_any_order(
    token_to_request: torch.Tensor,
    selected_positions: torch.Tensor,
    block_table: torch.Tensor,
    block_size: int,
    world: int,
    rank: int,
    interleave: int,
    compact_slots: torch.Tensor,
    num_valid: torch.Tensor,
) -> None:
    """The tiles of a row append their slots with one atomic each; the order of slots is free."""
    ranks = (world, rank, interleave)
    tokens = (token_to_request, selected_positions, block_table, block_size)
    slots = selections.topk_to_slots(*tokens, *ranks, None, None)
    compact_slots.fill_(-1)
    num_valid.zero_()
    num_rows, topk = selected_positions.shape
    if num_rows:
        tile = triton.next_power_of_2(triton.cdiv(topk, 3))
        _append[num_rows, triton.cdiv(topk, tile)](slots, compact_slots, num_valid, topk, TILE=tile)


RIGHT = (
    takes_tickets,
    looks_back,
    waits_for_the_next,
    meets_at_a_barrier,
    last_one_adds_up,
    all_store_the_same,
    uses_scratch,
    holds_a_lock,
    works_off_a_queue,
    adds_up_by_atomics,
    accesses_nothing,
)
