"""Kernels whose coverage is known by heart, and functions that launch them."""

import torch
import triton
import triton.language as tl


@triton.jit
def halved(value: tl.tensor, HALF: tl.constexpr) -> tl.tensor:
    if HALF:
        return value // 2
    return value


@triton.jit
def fill(out: tl.tensor, count: tl.tensor, HALF: tl.constexpr, BLOCK: tl.constexpr) -> None:
    """Write the index of each element in blocks, as one statement over several lines."""
    total = tl.sum(tl.arange(0, 2))
    for i in range(0, count, BLOCK):
        o_element = i + tl.arange(0, BLOCK)
        if i > 0:
            total += 1
        tl.store(
            out + o_element,
            tl.where(o_element >= 0, halved(o_element, HALF), -1),
            mask=o_element < count,
        )
    low = total * 0
    while low < 3:
        low += 2 if low == 0 else 1
    if total < 0:
        tl.store(out, -1)
    elif total < -1:
        return


@triton.jit
def clear(out: tl.tensor, count: tl.tensor) -> None:
    for i in range(0, count):
        tl.store(out + i, 0)


def launch(out: torch.Tensor, count: int, half: bool, block: int = 4) -> None:
    fill[(1,)](out, count, HALF=half, BLOCK=block)


def launch_or_clear(context_lens: torch.Tensor, query_lens: torch.Tensor, position_ids: torch.Tensor) -> None:
    """Write position_ids; more than 2^40 tokens would be cleared."""
    if position_ids.numel() > 2**40:
        clear[(1,)](position_ids, position_ids.numel())
    position_ids.zero_()
    row = 0
    for context_len, query_len in zip(context_lens.tolist(), query_lens.tolist(), strict=True):
        launch(position_ids[row:], query_len, False)
        position_ids[row : row + query_len] += context_len
        row += query_len
