"""Loops of interpreted kernels count in tensors, as compiled ones do: these hold on a GPU too."""

from contextlib import nullcontext
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from cumae.properties.interpreter.hooks import watching
from cumae.properties.running.device import prepare

DEVICE = prepare("auto")


@triton.jit
def _last(out: tl.tensor, start: tl.tensor, stop: tl.tensor) -> None:
    found = tl.full((), -1, tl.int64)
    for i in range(start, stop):
        found = i.to(tl.int64)  # type: ignore[attr-defined]
    tl.store(out, found)


@triton.jit
def _last_of_staged(out: tl.tensor, start: tl.tensor, stop: tl.tensor) -> None:
    found = tl.full((), -1, tl.int64)
    for i in tl.range(start, stop, step=2, num_stages=2):
        found = (i * 1).to(tl.int64)
    tl.store(out, found)


@triton.jit
def _downwards(out: tl.tensor, start: tl.tensor, stop: tl.tensor) -> None:
    found = tl.full((), -1, tl.int64)
    for i in range(stop - 1, start - 1, -1):
        found = found * 10 + i.to(tl.int64)  # type: ignore[attr-defined]
    tl.store(out, found)


@triton.jit
def _of_constants(out: tl.tensor, start: tl.tensor, stop: tl.tensor) -> None:
    found = (start * 0).to(tl.int64)
    for i in range(5):
        found += i.to(tl.int64)  # type: ignore[attr-defined]
    for i in tl.static_range(1, 3):
        found += tl.sum(tl.full((i,), 6, tl.int64))
    tl.store(out, found)


@triton.jit
def _product(out: tl.tensor, start: tl.tensor, stop: tl.tensor, STRIDE: tl.constexpr) -> None:
    found = tl.full((), -1, tl.int64)
    for i in range(start, stop):
        found = (i * STRIDE).to(tl.int64)
    tl.store(out, found)


def result(kernel: Any, start: Any, stop: Any, **constants: int) -> int:
    out = torch.full((1,), -7, dtype=torch.int64, device=DEVICE)
    with nullcontext() if DEVICE == "cuda" else watching():
        kernel[(1,)](out, start, stop, **constants)
    return int(out.item())


@pytest.mark.parametrize(
    ("kernel", "start", "stop", "expected"),
    [
        (_last, 2, 9, 8),
        (_last, 9, 2, -1),
        (_last_of_staged, 2, 9, 8),
        (_downwards, 2, 5, -1000 + 432),
        (_of_constants, 2, 5, 10 + 6 + 12),
    ],
)
def test_their_numbers_have_the_methods_of_tensors(kernel: Any, start: int, stop: int, expected: int) -> None:
    assert result(kernel, start, stop) == expected


@pytest.mark.parametrize("far", [0, 2**31])
def test_products_wrap_in_the_type_of_the_bounds(far: int) -> None:
    wrapped, wide = 3 * 2**30 - 2**32, (far + 3) * 2**30
    assert result(_product, far + 1, far + 4, STRIDE=2**30) == (wide if far else wrapped)


def test_a_search_for_overflows_sees_them() -> None:
    if DEVICE == "cuda":
        pytest.skip("assertions end the process there")
    out = torch.zeros(1, dtype=torch.int64)
    with watching(overflow=True) as watch:
        _product[(1,)](out, 1, 4, STRIDE=2**30)
    assert watch.asserted
