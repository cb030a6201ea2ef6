"""Launches that may begin before the kernel before them has ended: in the interpreter, it always has."""

from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from cumae.properties.interpreter.hooks import watching
from cumae.properties.running.device import prepare
from cumae.properties.search.direct import check

if prepare("auto") == "cuda":
    pytest.skip("nothing is interpreted where there is a GPU", allow_module_level=True)

ALWAYS, LATE, NEVER = 0, 1, 2


@triton.jit
def _positions(
    owner: tl.tensor,
    starts: tl.tensor,
    contexts: tl.tensor,
    out: tl.tensor,
    count: tl.tensor,
    WAITS: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    tl.extra.cuda.gdc_launch_dependents()
    if WAITS == 0:
        tl.extra.cuda.gdc_wait()
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    request = tl.load(owner + at, mask=at < count, other=-1)
    if WAITS == 1:
        tl.extra.cuda.gdc_wait()
    live = request >= 0
    start = tl.load(starts + request, mask=live, other=0)
    position = tl.load(contexts + request, mask=live, other=0) + at - start
    tl.store(out + at, tl.where(live, position, 0).to(tl.int64), mask=at < count)


def positions(waits: int, **options: Any) -> Any:
    def launch(
        token_to_request: torch.Tensor,
        cu_seqlens_q: torch.Tensor,
        context_lens: torch.Tensor,
        position_ids: torch.Tensor,
    ) -> None:
        if count := len(position_ids):
            given = token_to_request, cu_seqlens_q, context_lens, position_ids, count
            _positions[(triton.cdiv(count, 32),)](*given, waits, 32, **options)

    return launch


@pytest.mark.parametrize("options", [{}, {"launch_pdl": True}])
def test_a_kernel_that_waits_first_is_right(options: dict[str, Any]) -> None:
    verdict = check(positions(ALWAYS, **options), "position_ids", examples=10, save_to=None)
    assert verdict, verdict
    assert verdict.notes == ()


def test_loads_before_it_waits_are_noted() -> None:
    """What is loaded may be a weight that no kernel writes."""
    verdict = check(positions(LATE, launch_pdl=True), "position_ids", examples=10, save_to=None)
    assert verdict, verdict
    (note,) = verdict.notes
    assert note.startswith("it loads at ") and "test_early_launches.py:" in note


def test_a_store_that_does_not_wait_is_found() -> None:
    verdict = check(positions(NEVER, launch_pdl=True), "position_ids", examples=10, save_to=None)
    assert verdict.failure is not None
    assert verdict.failure.finding.check == "agrees"
    told = "launched with launch_pdl, the kernel changes memory before gdc_wait, at test_early_launches.py:"
    assert told in verdict.failure.finding.message


def test_a_launch_that_does_not_begin_early_need_not_wait() -> None:
    assert check(positions(NEVER), "position_ids", examples=10, save_to=None)
    assert check(positions(NEVER, launch_pdl=False), "position_ids", examples=10, save_to=None)


def test_each_program_of_each_launch_waits_for_itself() -> None:
    given = [torch.zeros(64, dtype=torch.int32) for _ in range(3)]
    out = torch.zeros(64, dtype=torch.int64)
    with watching() as watch:
        _positions[(2,)](*given, out, 64, ALWAYS, 32, launch_pdl=True)
        assert watch.early.hasty == {}
        _positions[(2,)](*given, out, 64, NEVER, 32)
        assert watch.early.hasty == {}
        _positions[(2,)](*given, out, 0, NEVER, 32, launch_pdl=True)
        assert watch.early.hasty == {}, "no lane is live"
        _positions[(2,)](*given, out, 64, NEVER, 32, launch_pdl=True)
        assert set(watch.early.hasty) == {"load", "store"}


def test_outside_of_a_watched_call_nothing_is_replaced() -> None:
    before = tl.extra.cuda.gdc_wait
    with watching():
        assert tl.extra.cuda.gdc_wait is not before
    assert tl.extra.cuda.gdc_wait is before
