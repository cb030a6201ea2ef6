"""Functions that raise on a valid case: where each does is marked ``# raises``, of its kernel ``# here``."""

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import torch
import triton
import triton.language as tl


@triton.jit
def divide(number: tl.tensor) -> tl.tensor:
    return number // 0  # here: in divide


@triton.jit
def divides(position_ids: tl.tensor, DEEP: tl.constexpr) -> None:
    if DEEP:
        tl.store(position_ids, divide(1))
    tl.store(position_ids, tl.arange(0, 3))  # here: in divides


@triton.jit
def reads_a_list(position_ids: tl.tensor, DEEP: tl.constexpr) -> None:
    numbers = [1, 2]
    tl.store(position_ids, numbers[DEEP])  # here: in reads_a_list


def on_the_host(query_lens: torch.Tensor, position_ids: torch.Tensor) -> None:
    [][0]  # raises: in on_the_host


def in_a_helper(query_lens: torch.Tensor, position_ids: torch.Tensor) -> None:
    on_the_host(query_lens, position_ids)


def in_torch(query_lens: torch.Tensor, position_ids: torch.Tensor) -> None:
    torch.zeros(3).reshape(2)  # raises: in in_torch


def in_a_kernel(query_lens: torch.Tensor, position_ids: torch.Tensor) -> None:
    reads_a_list[(1,)](position_ids, DEEP=7)  # raises: in in_a_kernel


def in_a_device_function(query_lens: torch.Tensor, position_ids: torch.Tensor) -> None:
    divides[(1,)](position_ids, DEEP=True)  # raises: in in_a_device_function


def never_compiles(query_lens: torch.Tensor, position_ids: torch.Tensor) -> None:
    divides[(1,)](position_ids, DEEP=False)


def before_the_kernel(query_lens: torch.Tensor, position_ids: torch.Tensor) -> None:
    reads_a_list[(1,)](position_ids)  # raises: in before_the_kernel


def told_anew(query_lens: torch.Tensor, position_ids: torch.Tensor) -> None:
    try:
        in_a_kernel(query_lens, position_ids)
    except Exception as error:
        raise RuntimeError("the launch failed") from error  # raises: in told_anew


def _through(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def wrapped(*arguments: Any, **named: Any) -> Any:
        return function(*arguments, **named)

    return wrapped


def _shifted(shift: int, query_lens: torch.Tensor, position_ids: torch.Tensor) -> None:
    in_a_kernel(query_lens, position_ids)


wrapped = _through(in_a_kernel)
bound = partial(_shifted, 1)


class WhenMade:
    def __init__(self, block_size: int) -> None:
        raise OSError("no room")  # raises: in __init__

    def __call__(self, query_lens: torch.Tensor, position_ids: torch.Tensor) -> None: ...


class WhenCalled:
    def __call__(self, query_lens: torch.Tensor, position_ids: torch.Tensor) -> None:
        in_a_kernel(query_lens, position_ids)


instance = WhenCalled()


class Panic(BaseException):
    """As an extension in Rust raises."""


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise LookupError


def panics(query_lens: torch.Tensor, position_ids: torch.Tensor) -> None:
    raise Panic("index out of bounds")  # raises: in panics


def unspeakable(query_lens: torch.Tensor, position_ids: torch.Tensor) -> None:
    raise Unspeakable  # raises: in unspeakable


def grid_raises(meta: dict[str, Any]) -> tuple[int]:
    return (1 // 0,)  # raises: in grid_raises


def in_a_grid(query_lens: torch.Tensor, position_ids: torch.Tensor) -> None:
    reads_a_list[grid_raises](position_ids, DEEP=7)


def leaves(query_lens: torch.Tensor, position_ids: torch.Tensor) -> None:
    raise SystemExit  # raises: in leaves
