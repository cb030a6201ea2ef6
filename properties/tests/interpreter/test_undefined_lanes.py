"""Lanes that masked loads without `other` leave undefined: a note says where an answer follows from them."""

from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from cumae.oracle import Batch, Case, Request
from cumae.properties.checks import Trial
from cumae.properties.checks.is_deterministic import is_deterministic
from cumae.properties.interpreter.hooks import watching
from cumae.properties.operations.binding import binding_of
from cumae.properties.running.device import prepare

if prepare("auto") == "cuda":
    pytest.skip("nothing is interpreted where there is a GPU", allow_module_level=True)

ADDED, MASKED, DEFINED = map(tl.constexpr, range(3))
CASE = Case(Batch((Request(3, 2, (1,)), Request(1, 4, (2,)), Request(0, 3, (3,))), 16))


@triton.jit
def _positions(query_lens: Any, context_lens: Any, out: Any, how: tl.constexpr, BLOCK: tl.constexpr) -> None:
    request, o_before = tl.program_id(0), tl.arange(0, BLOCK)
    if how == DEFINED:
        before = tl.load(query_lens + o_before, mask=o_before < request, other=0)
    else:
        before = tl.load(query_lens + o_before, mask=o_before < request)
    if how == MASKED:
        before = tl.where(o_before < request, before, 0)
    start = tl.sum(before)
    context, count = tl.load(context_lens + request), tl.load(query_lens + request)
    start += tl.sum(tl.where(o_before < 0, tl.load(query_lens + o_before, mask=o_before < 0), 0))
    o_token = tl.arange(0, BLOCK)
    tl.store(out + start + o_token, (context + o_token).to(tl.int64), mask=o_token < count)


def launching(how: tl.constexpr) -> Any:
    def positions(context_lens: Any, query_lens: Any, num_tokens_padded: int) -> torch.Tensor:
        out = torch.zeros(num_tokens_padded, dtype=torch.int64, device=context_lens.device)
        if len(query_lens):
            _positions[(len(query_lens),)](query_lens, context_lens, out, how, 1024)
        return out

    return positions


@pytest.mark.parametrize("how", [MASKED, DEFINED])
def test_lanes_that_change_nothing_are_not_told(how: tl.constexpr) -> None:
    trial = Trial(binding_of(launching(how), "position_ids"), CASE, "cpu")
    assert is_deterministic(trial) is None
    assert trial.note == ""


def test_lanes_that_are_added_are_told_with_the_line_of_their_load() -> None:
    trial = Trial(binding_of(launching(ADDED), "position_ids"), CASE, "cpu")
    assert is_deterministic(trial) is None
    assert trial.note.startswith("its answer changes with undefined lanes, of masked loads")
    assert trial.note.count("test_undefined_lanes.py:") == 1
    watch = trial.first.watch
    assert watch is not None and len(watch.undefined) == 2


def test_not_every_trial_looks() -> None:
    trial = Trial(binding_of(launching(ADDED), "position_ids"), CASE, "cpu", number=1)
    assert is_deterministic(trial) is None
    assert trial.note == ""


@triton.jit
def _copy(numbers: Any, out: Any, BLOCK: tl.constexpr) -> None:
    o = tl.arange(0, BLOCK)
    tl.store(out + o, tl.load(numbers + o, mask=o < 2))


@triton.jit
def _copy_one(numbers: Any, out: Any) -> None:
    o = tl.arange(0, 1)
    tl.store(out + o, tl.load(numbers + o, mask=o < 0, other=0))


@pytest.mark.parametrize(
    ("dtype", "held"),
    [
        (torch.bfloat16, 2.0**60),
        (torch.float32, 2.0**60),
        (torch.float16, 2.0**15),
        (torch.float8_e4m3fn, 240.0),
        (torch.float8_e5m2, 28672.0),
        (torch.int8, 85),
        (torch.int64, 85),
    ],
)
def test_undefined_lanes_hold_a_number_that_is_not_zero_in_every_type(
    dtype: torch.dtype, held: float
) -> None:
    numbers, out = torch.ones(4).to(dtype), torch.zeros(4).to(dtype)
    with watching() as watch:
        _copy[(1,)](numbers, out, 4)
    assert out.float().tolist() == [1, 1, 0, 0]
    (line,) = watch.undefined
    assert line.startswith("test_undefined_lanes.py:")
    with watching(filled=[line]):
        _copy[(1,)](numbers, out, 4)
    assert out.float().tolist() == [1, 1, held, held]


def test_one_lane_that_is_0_is_not_undefined() -> None:
    numbers, out = torch.ones(1), torch.ones(1)
    with watching() as watch:
        _copy_one[(1,)](numbers, out)
    assert out.tolist() == [0]
    assert not watch.undefined


@triton.jit
def _longest(
    query_lens: Any, out: Any, num_requests: Any, defined: tl.constexpr, BLOCK: tl.constexpr
) -> None:
    o = tl.arange(0, BLOCK)
    if defined:
        lens = tl.load(query_lens + o, mask=o < num_requests, other=0.0)
    else:
        lens = tl.load(query_lens + o, mask=o < num_requests)
    tl.store(out, tl.max(lens).to(tl.int32))


@pytest.mark.parametrize("defined", [False, True])
def test_a_maximum_of_large_numbers_is_told(defined: bool) -> None:
    def longest(query_lens: torch.Tensor) -> dict[str, torch.Tensor]:
        out = torch.zeros(1, dtype=torch.int32)
        _longest[(1,)](query_lens.float(), out, len(query_lens), defined, 8)
        return {"max_seqlen_q": out}

    case = Case(Batch((Request(0, 200, tuple(range(1, 14))), Request(0, 300, tuple(range(20, 39)))), 16))
    trial = Trial(binding_of(longest, "sequence_layout"), case, "cpu")
    assert is_deterministic(trial) is None
    assert bool(trial.note) is not defined
