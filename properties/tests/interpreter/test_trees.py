"""Reductions and scans by a kernel's own function combine in groups, as on a GPU, and in order."""

from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from cumae.properties.interpreter.hooks import watching
from cumae.properties.running.device import prepare

if prepare("auto") == "cuda":
    pytest.skip("nothing is interpreted where there is a GPU", allow_module_level=True)

SIZE = 16
FLAGS = [1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0]
SUMS = [1, 2, 3, 4, 1, 1, 2, 3, 4, 5, 6, 1, 2, 3, 1, 2]


@triton.jit
def _restarts(before: Any, was_first: Any, number: Any, is_first: Any) -> Any:
    return tl.where(is_first != 0, number, before + number), was_first | is_first


@triton.jit
def _forgets(before: Any, was_first: Any, number: Any, is_first: Any) -> Any:
    return tl.where(is_first != 0, number, before + number), is_first


@triton.jit
def _chooses(before: Any, was_first: Any, number: Any, is_first: Any) -> Any:
    if is_first != 0:
        number = number + 0
    else:
        number = before + number
    return number, was_first | is_first


@triton.jit
def _last(one: Any, other: Any) -> Any:
    return other


@triton.jit
def _first(one: Any, other: Any) -> Any:
    return one


@triton.jit
def _folds(total: Any, number: Any) -> Any:
    return total + (number + 7) // 8


@triton.jit
def _sums_of_runs(
    flags: Any, out: Any, combine: tl.constexpr, reverse: tl.constexpr, BLOCK: tl.constexpr
) -> None:
    o_all = tl.arange(0, BLOCK)
    ones = tl.full((2, BLOCK), 1, tl.int32)
    is_first = tl.load(flags + o_all)[None, :] + tl.zeros((2, BLOCK), tl.int32)
    sums, _ = tl.associative_scan((ones, is_first), 1, combine, reverse=reverse)
    tl.store(out + o_all, tl.max(sums, 0))


@triton.jit
def _reduced(out: Any, combine: tl.constexpr, axis: tl.constexpr, BLOCK: tl.constexpr) -> None:
    numbers = tl.arange(0, BLOCK) + 1
    if axis is None:
        tl.store(out, tl.reduce(tl.reshape(numbers, (4, BLOCK // 4)), None, combine))
    else:
        tl.store(out, tl.reduce(numbers, axis, combine))


def sums_of_runs(combine: Any, *, reverse: bool = False) -> list[int]:
    flags = torch.tensor(FLAGS[::-1] if reverse else FLAGS, dtype=torch.int32)
    out = torch.full((SIZE,), -7, dtype=torch.int32)
    with watching():
        _sums_of_runs[(1,)](flags, out, combine, reverse, BLOCK=SIZE)
    return out.tolist()[::-1] if reverse else out.tolist()


def reduced(combine: Any, axis: int | None = 0) -> int:
    out = torch.zeros(1, dtype=torch.int32)
    with watching():
        _reduced[(1,)](out, combine, axis, BLOCK=SIZE)
    return int(out)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("combine", [_restarts, _chooses])
def test_a_scan_by_an_associative_function_is_exact(combine: Any, reverse: bool) -> None:
    assert sums_of_runs(combine, reverse=reverse) == SUMS


def test_a_scan_whose_function_drops_a_flag_is_wrong() -> None:
    assert sums_of_runs(_forgets) != SUMS


@pytest.mark.parametrize("axis", [0, None])
def test_a_reduction_keeps_the_order(axis: int | None) -> None:
    assert reduced(_first, axis) == 1
    assert reduced(_last, axis) == SIZE


def test_a_reduction_by_a_fold_is_wrong() -> None:
    in_order = 1
    for number in range(2, SIZE + 1):
        in_order += -(-number // 8)
    assert reduced(_folds) != in_order
