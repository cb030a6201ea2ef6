"""Kernels with faults that only their accesses show, and right ones that look like them."""

import torch
import triton
import triton.language as tl


@triton.jit
def stores_its_number(answer: tl.tensor) -> None:
    """Race: every program stores another value to one element."""
    tl.store(answer + 2, tl.program_id(0))


@triton.jit
def stores_one_value(answer: tl.tensor) -> None:
    """Right: every program stores the same value to one element."""
    tl.store(answer + 2, 7)


@triton.jit
def reads_its_neighbour(answer: tl.tensor) -> None:
    """Race: a program loads what the one before it stores."""
    i = tl.program_id(0)
    left = tl.load(answer + i - 1, mask=i > 0, other=0)
    tl.store(answer + i, left + 1)


@triton.jit
def lanes_collide(answer: tl.tensor) -> None:
    """Race: two lanes of a block store different values to one element."""
    o_lane = tl.arange(0, 4)
    tl.store(answer + o_lane // 2, o_lane)


@triton.jit
def clears_while_others_add(answer: tl.tensor) -> None:
    """Race: one program sets the counter to 0 that all of them add to."""
    if tl.program_id(0) == 1:
        tl.store(answer, 0)
    tl.atomic_add(answer, 1)


@triton.jit
def takes_a_lock(answer: tl.tensor, RELAXED: tl.constexpr) -> None:
    """Right, unless relaxed: programs change one element one after the other, a lock between them."""
    if RELAXED:
        while tl.atomic_cas(answer + 3, 0, 1, sem="relaxed") == 1:
            pass
    else:
        while tl.atomic_cas(answer + 3, 0, 1) == 1:
            pass
    tl.store(answer, tl.load(answer) + 1)
    if RELAXED:
        tl.atomic_xchg(answer + 3, 0, sem="relaxed")
    else:
        tl.atomic_xchg(answer + 3, 0)


@triton.jit
def adds_to_garbage(answer: tl.tensor) -> None:
    """Reads what nobody wrote: the counter was never set to 0."""
    tl.atomic_add(answer + 1, 1)


@triton.jit
def overflows(answer: tl.tensor, factor: tl.tensor) -> None:
    """A product of 32 bits wraps."""
    tl.store(answer, factor * 65536)


@triton.jit
def asserts(answer: tl.tensor, bound: tl.tensor) -> None:
    """Asserts that a number is small."""
    tl.device_assert(bound < 3, "bound is small")
    tl.store(answer, bound)


@triton.jit
def copies_from_before(answer: tl.tensor, BACK: tl.constexpr) -> None:
    """Right over a view, as long as the tensor that it is of begins so far before it."""
    tl.store(answer, tl.load(answer - BACK))


@triton.jit
def _stores_far(positions: tl.tensor) -> None:
    tl.store(positions + (1 << 40), 0)


def reaches_far(position_ids: torch.Tensor) -> None:
    """Stores terabytes behind its output, which loses the CUDA context."""
    _stores_far[(1,)](position_ids)
