"""Triton kernels that are wrong on purpose, each in the one way that a single check is there to see."""

from typing import Any

import torch
import triton
import triton.language as tl

from cumae.properties.tests.functions.wrong_on_purpose import right_positions, right_slots


@triton.jit
def _reads_one_behind(
    token_to_request: tl.tensor,
    cu_seqlens_q: tl.tensor,
    context_lens: tl.tensor,
    position_ids: tl.tensor,
    num_tokens: tl.tensor,
    TILE: tl.constexpr,
) -> None:
    o_token = tl.program_id(0) * TILE + tl.arange(0, TILE)
    m_token = o_token < num_tokens
    i_request = tl.load(token_to_request + o_token, mask=o_token <= num_tokens, other=-1)
    m_live = m_token & (i_request >= 0)
    first = tl.load(cu_seqlens_q + i_request, mask=m_live, other=0)
    context_len = tl.load(context_lens + i_request, mask=m_live, other=0).to(tl.int64)
    tl.store(position_ids + o_token, tl.where(m_live, context_len + o_token - first, 0), mask=m_token)


def reads_one_behind(
    token_to_request: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    context_lens: torch.Tensor,
    position_ids: torch.Tensor,
) -> None:
    """Fails ``stays_in_bounds``: one element behind the token map is loaded, and not used."""
    count = position_ids.numel()
    if count:
        grid = (triton.cdiv(count, 1024),)
        _reads_one_behind[grid](token_to_request, cu_seqlens_q, context_lens, position_ids, count, TILE=1024)


@triton.jit
def _last_program_wins(right: tl.tensor, position_ids: tl.tensor, num_tokens: tl.tensor) -> None:
    i_token = tl.program_id(0)
    tl.store(position_ids, i_token - num_tokens + 1 + tl.load(right))
    if i_token > 0:
        tl.store(position_ids + i_token, tl.load(right + i_token))


def last_program_wins(
    token_to_request: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    context_lens: torch.Tensor,
    position_ids: torch.Tensor,
) -> None:
    """Fails ``is_deterministic``: all programs write element 0, and the last one writes it right."""
    count = position_ids.numel()
    if count:
        right = right_positions(token_to_request, cu_seqlens_q, context_lens)
        _last_program_wins[(count,)](right, position_ids, count)


@triton.jit
def _takes_a_number(right: tl.tensor, counter: tl.tensor, position_ids: tl.tensor) -> None:
    turn = tl.atomic_add(counter, 1)
    o_token = tl.program_id(0)
    tl.store(position_ids + o_token, tl.load(right + o_token) + turn - o_token)


def takes_a_number(
    token_to_request: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    context_lens: torch.Tensor,
    position_ids: torch.Tensor,
) -> None:
    """Fails ``is_deterministic``: right while programs take their numbers in order, and no race."""
    right = right_positions(token_to_request, cu_seqlens_q, context_lens)
    if right.numel():
        counter = torch.zeros(1, dtype=torch.int64, device=right.device)
        _takes_a_number[(right.numel(),)](right, counter, position_ids)


@triton.jit
def _leaves_its_number(
    right: tl.tensor, scratch: tl.tensor, position_ids: tl.tensor, count: tl.tensor, TILE: tl.constexpr
) -> None:
    o_token = tl.program_id(0) * TILE + tl.arange(0, TILE)
    tl.store(scratch, tl.program_id(0))
    position = tl.load(right + o_token, mask=o_token < count, other=0)
    tl.store(position_ids + o_token, position, mask=o_token < count)


def leaves_its_number(
    token_to_request: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    context_lens: torch.Tensor,
    position_ids: torch.Tensor,
) -> None:
    """Fails ``is_deterministic``: all programs store their number in one place, and nobody reads it yet."""
    right = right_positions(token_to_request, cu_seqlens_q, context_lens)
    if right.numel():
        scratch = torch.empty(1, dtype=torch.int64, device=right.device)
        grid = (triton.cdiv(right.numel(), 16),)
        _leaves_its_number[grid](right, scratch, position_ids, right.numel(), TILE=16)


@triton.jit
def _reads_its_output(
    right: tl.tensor,
    position_ids: tl.tensor,
    count: tl.tensor,
    ASSERTED: tl.constexpr,
    TILE: tl.constexpr,
) -> None:
    o_token = tl.program_id(0) * TILE + tl.arange(0, TILE)
    position = tl.load(right + o_token, mask=o_token < count, other=0)
    if ASSERTED:
        tl.device_assert(position < 2, "positions are small")
    else:
        position += tl.load(position_ids + o_token, mask=o_token < count, other=0) * 0
    tl.store(position_ids + o_token, position, mask=o_token < count)


def reads_its_output(
    token_to_request: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    context_lens: torch.Tensor,
    position_ids: torch.Tensor,
) -> None:
    """Fails ``stays_in_bounds``: what the output held is loaded, and makes no difference yet."""
    right = right_positions(token_to_request, cu_seqlens_q, context_lens)
    if right.numel():
        grid = (triton.cdiv(right.numel(), 1024),)
        _reads_its_output[grid](right, position_ids, right.numel(), ASSERTED=False, TILE=1024)


def asserts_too_much(
    token_to_request: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    context_lens: torch.Tensor,
    position_ids: torch.Tensor,
) -> None:
    """Fails ``agrees``: right, but its assertion fails on valid cases."""
    right = right_positions(token_to_request, cu_seqlens_q, context_lens)
    if right.numel():
        grid = (triton.cdiv(right.numel(), 1024),)
        _reads_its_output[grid](right, position_ids, right.numel(), ASSERTED=True, TILE=1024)


@triton.jit
def _wraps(slots: tl.tensor, slot_mapping: tl.tensor, block_size: tl.tensor) -> None:
    slot = tl.load(slots + tl.program_id(0))
    block_id = (slot // block_size).to(tl.int32)
    tl.store(
        slot_mapping + tl.program_id(0), tl.where(slot < 0, -1, block_id * block_size + slot % block_size)
    )


def wraps(
    token_to_request: torch.Tensor,
    position_ids: torch.Tensor,
    block_table: torch.Tensor,
    block_size: int,
    slot_mapping: torch.Tensor,
) -> None:
    """Fails ``survives_large_ids``: the product is one of 32 bits in the kernel."""
    slots = right_slots(block_table, token_to_request, position_ids, block_size, slot_mapping.numel())
    if slots.numel():
        _wraps[(slots.numel(),)](slots, slot_mapping, block_size)


@triton.jit
def _wraps_where_masked(
    right: tl.tensor, position_ids: tl.tensor, count: tl.tensor, TILE: tl.constexpr
) -> None:
    o_token = tl.arange(0, TILE)
    scaled = tl.where(o_token < count, o_token, 65536) * 65536
    position = tl.load(right + o_token, mask=o_token < count, other=0)
    tl.store(position_ids + o_token, position + scaled // 65536 - o_token, mask=o_token < count)


def wraps_where_masked(
    token_to_request: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    context_lens: torch.Tensor,
    position_ids: torch.Tensor,
) -> None:
    """Fails only under ``--sanitize debug``: a product wraps in lanes that nobody uses."""
    right = right_positions(token_to_request, cu_seqlens_q, context_lens)
    _wraps_where_masked[(1,)](right, position_ids, right.numel(), TILE=1024)


ALWAYS, LATE, LAST, NEVER = 0, 1, 2, 3


@triton.jit
def positions(
    owner: tl.tensor,
    starts: tl.tensor,
    contexts: tl.tensor,
    out: tl.tensor,
    count: tl.tensor,
    WAITS: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    tl.extra.cuda.gdc_launch_dependents()
    if WAITS == 0:
        tl.extra.cuda.gdc_wait()
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    request = tl.load(owner + at, mask=at < count, other=-1)
    if WAITS == 1:
        tl.extra.cuda.gdc_wait()
    live = request >= 0
    start = tl.load(starts + request, mask=live, other=0)
    position = tl.load(contexts + request, mask=live, other=0) + at - start
    tl.store(out + at, tl.where(live, position, 0).to(tl.int64), mask=at < count)
    if WAITS == 2:
        tl.extra.cuda.gdc_wait()


def waiting(waits: int, **options: Any) -> Any:
    """Return a function whose kernel waits for the kernel before it: at once, late or never."""

    def launch(
        token_to_request: torch.Tensor,
        cu_seqlens_q: torch.Tensor,
        context_lens: torch.Tensor,
        position_ids: torch.Tensor,
    ) -> None:
        if count := len(position_ids):
            given = token_to_request, cu_seqlens_q, context_lens, position_ids, count
            positions[(triton.cdiv(count, 32),)](*given, waits, 32, **options)

    return launch


def stores_without_waiting(
    token_to_request: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    context_lens: torch.Tensor,
    position_ids: torch.Tensor,
) -> None:
    """Fails ``waits_for_arguments``: the kernel may begin early, and does not wait."""
    waiting(NEVER, launch_pdl=True)(token_to_request, cu_seqlens_q, context_lens, position_ids)
