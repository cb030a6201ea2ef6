"""Accesses that are not aligned are recorded: by pointers that were cast, and by false claims."""

from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from cumae.properties.interpreter.hooks import watching
from cumae.properties.running.device import prepare

if prepare("auto") == "cuda":
    pytest.skip("nothing is interpreted where there is a GPU", allow_module_level=True)

SIZE = 1024


@triton.jit
def _filled(
    out: Any,
    start: Any,
    period: Any,
    stop: Any,
    stride: tl.constexpr,
    masked: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    offsets = (start + tl.arange(0, BLOCK)) % period
    offsets = tl.max_contiguous(tl.multiple_of(offsets, BLOCK), BLOCK)
    if masked:
        tl.store(out + offsets * stride, offsets, mask=offsets < stop)
    else:
        tl.store(out + offsets * stride, offsets)


@triton.jit
def _beside(out: Any, start: Any, BLOCK: tl.constexpr) -> None:
    claimed = tl.multiple_of(start + tl.arange(0, BLOCK), BLOCK)
    tl.store(out + claimed * 2, claimed)
    tl.store(out + 1 + tl.arange(0, BLOCK), claimed)


@triton.jit
def _pairs(numbers: Any, out: Any, first: Any) -> None:
    both = tl.load((numbers + first).to(tl.pointer_type(tl.int64)))
    tl.store(out, (both >> 32).to(tl.int32))


@triton.jit
def _halves(numbers: Any, out: Any, first: Any) -> None:
    half = tl.load(numbers.to(tl.pointer_type(tl.int16)) + first)
    tl.store(out, half.to(tl.int32))


def told_of(
    start: int, *, period: int = SIZE, stride: int = 1, masked: bool = False, block: int = 256, begin: int = 0
) -> list[str]:
    out = torch.zeros(4 * SIZE, dtype=torch.int32)[begin:]
    with watching() as watch:
        _filled[(1,)](out, start, period, SIZE, stride, masked, BLOCK=block)
    return [str(one).partition(", at ")[0] for one in watch.outside]


def test_a_store_by_a_false_claim_is_recorded_with_both_lines() -> None:
    (told,) = told_of(5)
    assert told.startswith(
        "store of 2 elements at once where they do not lie in a row from a multiple of 8 bytes"
    )
    assert "as `tl.multiple_of` at test_hints.py:" in told


def test_offsets_that_begin_again_are_no_run() -> None:
    assert len(told_of(768, period=901)) == 1


@pytest.mark.parametrize("start", [0, 256, 512])
def test_a_true_claim_is_right(start: int) -> None:
    assert told_of(start) == []


def test_a_false_claim_does_no_harm_where_no_access_follows_it() -> None:
    assert told_of(5, stride=2) == []
    assert told_of(5, masked=True) == []
    assert told_of(5, block=64) == []  # one element a thread
    assert told_of(5, begin=1) == []  # a tensor that begins anywhere: nothing is known of its address


def test_an_access_of_other_offsets_is_none_that_follows() -> None:
    out = torch.zeros(SIZE, dtype=torch.int32)
    with watching() as watch:
        _beside[(1,)](out, 5, BLOCK=256)
    assert watch.outside == []


@pytest.mark.parametrize("first", [0, 1, 2, 3])
def test_a_load_of_pairs_needs_even_elements(first: int) -> None:
    numbers, out = torch.arange(5, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    with watching() as watch:
        _pairs[(1,)](numbers, out, first)
    told = [str(one).partition(", at ")[0] for one in watch.outside]
    assert told == (["load of 8 bytes at an address that 8 does not divide"] if first % 2 else [])
    assert int(out) == first + 1


def test_smaller_elements_lie_anywhere() -> None:
    numbers, out = torch.arange(5, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    with watching() as watch:
        _halves[(1,)](numbers, out, 4)
    assert (int(out), watch.outside) == (2, [])
