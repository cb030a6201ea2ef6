"""Kernels that access memory outside every tensor, through a pointer whose tensor the statement tells."""

import triton
import triton.language as tl


@triton.jit
def directly(first: tl.tensor, second: tl.tensor, far: tl.tensor) -> None:
    """The pointer is an argument."""
    tl.store(second + far, tl.load(first))


@triton.jit
def through_a_variable(first: tl.tensor, second: tl.tensor, far: tl.tensor) -> None:
    """The pointers are computed before, from an argument that is itself moved."""
    second += far
    places = second + tl.arange(0, 2)
    tl.store(places, tl.load(first))


@triton.jit
def reads_at(pointer: tl.tensor, far: tl.tensor) -> tl.tensor:
    """Return an element; the caller knows the tensor under another name."""
    return tl.load(pointer + far)


@triton.jit
def in_a_function(first: tl.tensor, second: tl.tensor, far: tl.tensor) -> None:
    """The pointer is an argument of a function that the kernel calls."""
    tl.store(first, reads_at(second, far))


@triton.jit
def by_another_tensors_value(first: tl.tensor, second: tl.tensor, far: tl.tensor) -> None:
    """The place is loaded from another tensor."""
    tl.store(second + far + tl.load(first), 7)


@triton.jit
def by_a_difference(first: tl.tensor, second: tl.tensor, far: tl.tensor) -> None:
    """The statement adds no pointer to one tensor alone."""
    tl.store(tl.where(far > 0, first, second) + far, 7)
