"""Launches that may begin before the kernel before them has ended: in the interpreter, it always has."""

from typing import Any

import pytest
import torch
import triton.language as tl

from cumae.properties.interpreter.hooks import watching
from cumae.properties.running.device import prepare
from cumae.properties.search.direct import check
from cumae.properties.tests.functions.wrong_kernels import ALWAYS, LAST, LATE, NEVER, positions, waiting

if prepare("auto") == "cuda":
    pytest.skip("nothing is interpreted where there is a GPU", allow_module_level=True)


@pytest.mark.parametrize("options", [{}, {"launch_pdl": True}])
def test_a_kernel_that_waits_first_is_right(options: dict[str, Any]) -> None:
    verdict = check(waiting(ALWAYS, **options), "position_ids", examples=10, save_to=None)
    assert verdict, verdict
    assert verdict.notes == ()


def test_loads_before_it_waits_are_noted() -> None:
    """Such a load may be of a weight that no kernel writes."""
    verdict = check(waiting(LATE, launch_pdl=True), "position_ids", examples=10, save_to=None)
    assert verdict, verdict
    (note,) = verdict.notes
    assert note.startswith("it loads at ") and "wrong_kernels.py:" in note


@pytest.mark.parametrize("waits", [LAST, NEVER])
def test_a_store_that_does_not_wait_is_found(waits: int) -> None:
    verdict = check(waiting(waits, launch_pdl=True), "position_ids", examples=10, save_to=None)
    assert verdict.failure is not None
    assert verdict.failure.finding.check == "agrees"
    told = "launched with launch_pdl, the kernel changes memory before gdc_wait, at wrong_kernels.py:"
    assert told in verdict.failure.finding.message


def test_a_launch_that_does_not_begin_early_need_not_wait() -> None:
    assert check(waiting(NEVER), "position_ids", examples=10, save_to=None)
    assert check(waiting(NEVER, launch_pdl=False), "position_ids", examples=10, save_to=None)


def test_each_program_of_each_launch_waits_for_itself() -> None:
    given = [torch.zeros(64, dtype=torch.int32) for _ in range(3)]
    out = torch.zeros(64, dtype=torch.int64)
    with watching() as watch:
        positions[(2,)](*given, out, 64, ALWAYS, 32, launch_pdl=True)
        assert watch.early.hasty == {}
        positions[(2,)](*given, out, 64, NEVER, 32)
        assert watch.early.hasty == {}
        positions[(2,)](*given, out, 0, NEVER, 32, launch_pdl=True)
        assert watch.early.hasty == {}, "no lane is live"
        positions[(2,)](*given, out, 64, NEVER, 32, launch_pdl=True)
        assert set(watch.early.hasty) == {"load", "store"}


def test_outside_of_a_watched_call_nothing_is_replaced() -> None:
    before = tl.extra.cuda.gdc_wait
    with watching():
        assert tl.extra.cuda.gdc_wait is not before
    assert tl.extra.cuda.gdc_wait is before
