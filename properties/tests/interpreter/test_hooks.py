"""Hooks stay between calls while they are kept, report to the call that runs, and are gone afterwards."""

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.libdevice import popc

from cumae.properties.interpreter.delays import Delays
from cumae.properties.interpreter.hooks import keeping_hooks, watching
from cumae.properties.interpreter.threads import Layout
from cumae.properties.interpreter.watch import Watch
from cumae.properties.running.device import prepare
from cumae.properties.search.direct import check

if prepare("auto") == "cuda":
    pytest.skip("nothing is interpreted where there is a GPU", allow_module_level=True)

from triton.runtime import interpreter


class Counting(Delays):
    meetings = 0

    def meet(self) -> None:
        self.meetings += 1
        super().meet()


PLACES = (interpreter.InterpreterBuilder, interpreter.GridExecutor, interpreter, tl, tl.core, tl.core.tensor)


@triton.jit
def _fill(out: tl.tensor, count: tl.tensor, BLOCK: tl.constexpr) -> None:
    at = tl.arange(0, BLOCK)
    tl.store(out + at, at * 1_000_000_000, mask=at < count)


@triton.jit
def _count_up(out: tl.tensor, count: tl.tensor) -> None:
    """Write 1, 2 and so on. Only one test launches this kernel: it needs a kernel that never ran."""
    at = tl.arange(0, 4)
    tl.store(out + at, at + 1, mask=at < count)


def filled(count: int) -> torch.Tensor:
    out = torch.full((16,), -7, dtype=torch.int32)[:8]
    _fill[(1,)](out, count, BLOCK=16)
    return out


def state() -> list[dict[str, Any]]:
    return [dict(vars(place)) for place in PLACES]


@pytest.fixture(autouse=True)
def _nothing_stays() -> Iterator[None]:
    filled(1)  # triton sets up some of its own names at the first launch
    before = state()
    yield
    assert all(
        now.get(name) is value
        for now, was in zip(state(), before, strict=True)
        for name, value in was.items()
        if not name.startswith("__")
    )


def test_they_stay_while_kept_and_for_one_call_else() -> None:
    load = interpreter.InterpreterBuilder.create_masked_load
    with watching():
        assert interpreter.InterpreterBuilder.create_masked_load is not load
    assert interpreter.InterpreterBuilder.create_masked_load is load
    with keeping_hooks():
        assert interpreter.InterpreterBuilder.create_masked_load is load
        with watching():
            first = interpreter.InterpreterBuilder.create_masked_load
        with watching(races=True, order_seed=3):
            assert interpreter.InterpreterBuilder.create_masked_load is first is not load
        assert interpreter.InterpreterBuilder.create_masked_load is first
    assert interpreter.InterpreterBuilder.create_masked_load is load


@pytest.mark.parametrize("kept", [False, True])
def test_each_call_has_its_own_record(kept: bool) -> None:
    with keeping_hooks() if kept else nullcontext():
        records: list[Watch] = []
        for count in (8, 11, 8, 9):
            with watching() as watch:
                filled(count)
            records.append(watch)
        filled(12)  # between two calls: nobody's
    assert [record.num_outside for record in records] == [0, 1, 0, 1]
    assert [record.counts["store"] for record in records] == [1, 1, 1, 1]


@pytest.mark.parametrize("kept", [False, True])
def test_what_a_call_asks_for_holds_for_that_call_alone(kept: bool) -> None:
    with keeping_hooks() if kept else nullcontext():
        found = []
        for overflow in (False, True, False):
            with watching(overflow=overflow) as watch:
                filled(3)
            found.append(bool(watch.asserted))
        delayed = Counting(stores=Layout(), loads=Layout())
        with watching(threads=delayed):
            filled(3)
        meetings = delayed.meetings
        with watching():
            filled(3)
    assert found == [False, True, False]
    assert meetings == delayed.meetings > 0


@pytest.mark.parametrize("grid", [[1], lambda meta: [1]])
def test_a_grid_may_be_a_list_as_where_triton_compiles(grid: Any) -> None:
    out = torch.full((4,), -7, dtype=torch.int32)
    with watching():
        _fill[grid](out, 1, BLOCK=1)
    assert out.tolist() == [0, -7, -7, -7]


def test_calls_within_calls_report_to_both() -> None:
    with keeping_hooks(), watching() as outer:
        with watching() as inner:
            filled(11)
        filled(9)
        with keeping_hooks(), watching() as another:
            filled(10)
    assert (inner.num_outside, another.num_outside) == (1, 1)
    assert outer.num_outside == 1  # inner hooks have masked off what they saw
    assert outer.counts["store"] == 3


def test_a_kernel_may_run_first_in_a_call_within_a_call() -> None:
    out = torch.full((4,), -7)
    with watching() as outer, watching() as inner:
        _count_up[(1,)](out, 3)
    assert out.tolist() == [1, 2, 3, -7]
    assert outer.counts["store"] == inner.counts["store"] == 1


def test_an_error_in_a_call_leaves_them_ready_for_the_next() -> None:
    with keeping_hooks():
        with pytest.raises(RuntimeError, match="mine"), watching():
            raise RuntimeError("mine")
        with watching() as watch:
            assert filled(3).tolist()[:3] == [0, 1_000_000_000, 2_000_000_000]
    assert watch.counts["store"] == 1


def test_a_launch_takes_arguments_of_the_kernel_and_options_alone() -> None:
    """As where Triton compiles; its interpreter leaves out all others."""
    out = torch.zeros(16, dtype=torch.int32)
    _fill[(1,)](out, 8, BLOCK=16, TILES=2)
    with watching():
        _fill[(1,)](out, 8, BLOCK=16, num_warps=2, maxnreg=64, waves_per_eu=2)
        with pytest.raises(KeyError, match="TILES was specified but unrecognised"):
            _fill[(1,)](out, 8, BLOCK=16, TILES=2)


def test_a_grid_that_no_gpu_launches_is_refused() -> None:
    out = torch.zeros(16, dtype=torch.int32)
    with watching():
        _fill[(1, 2, 3)](out, 8, BLOCK=16)
        for grid in ((1, 65_536), (1, 1, 65_536)):
            with pytest.raises(Exception, match="a launch has at most 65,535 programs on axes 1 and 2"):
                _fill[grid](out, 8, BLOCK=16)


@triton.jit
def _counted_by_assembly(out: tl.tensor) -> None:
    at = tl.arange(0, 4)
    one = tl.inline_asm_elementwise("mov.u32 $0, 1;", "=r,r", [at], dtype=tl.int32, is_pure=True, pack=1)
    tl.store(out + at, one)


@triton.jit
def _counted_by_a_library(out: tl.tensor) -> None:
    at = tl.arange(0, 4)
    tl.store(out + at, libdevice.popc(at))


@triton.jit
def _counted_by_its_function(out: tl.tensor) -> None:
    at = tl.arange(0, 4)
    tl.store(out + at, popc(at))


@pytest.mark.parametrize(
    ("kernel", "says"),
    [
        (_counted_by_assembly, "inline_asm not supported"),
        (_counted_by_a_library, "popc of libdevice is not supported"),
        (_counted_by_its_function, "popc of libdevice is not supported"),
    ],
)
def test_what_the_interpreter_cannot_run_is_refused_and_not_accused(kernel: Any, says: str) -> None:
    def positions(position_ids: torch.Tensor) -> None:
        kernel[(1,)](position_ids)

    must = rf"target = 'positions', must run on a GPU: Triton says '{says}"
    with pytest.raises(ValueError, match=must):
        check(positions, "position_ids", examples=5, save_to=None)
