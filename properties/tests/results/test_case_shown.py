"""A check calls on other cases, too: where the function fails on one of these, that one is shown."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from cumae.oracle import Batch, Case, Layout, Options, Request
from cumae.properties.operations.binding import binding_of
from cumae.properties.results.case_lines import case_lines
from cumae.properties.results.failure_file import load_failure
from cumae.properties.results.verdict import Failure
from cumae.properties.running.device import prepare
from cumae.properties.search import process
from cumae.properties.search.budget import Budget
from cumae.properties.search.isolated import search_isolated
from cumae.properties.search.job import Job
from cumae.properties.search.loop import search
from cumae.properties.tests.functions.wrong_on_purpose import right_positions

DEVICE = prepare("auto")


@pytest.fixture(autouse=True)
def nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "WARM_SECONDS", 1.0)  # what hangs is waited for only so long


CRASHING = "cumae.properties.tests.functions.crashing"
SMALL = Case(
    Batch(tuple(Request(3, 2, tuple(range(9 * b, 9 * b + 9)), "prefill") for b in range(2)), 4), Layout()
)


def raises_where(is_hit: Callable[[dict[str, torch.Tensor]], bool]) -> Callable[..., None]:
    """Return right position ids that raise where the arguments say so."""

    def launch(
        token_to_request: torch.Tensor,
        cu_seqlens_q: torch.Tensor,
        context_lens: torch.Tensor,
        position_ids: torch.Tensor,
    ) -> None:
        if is_hit({"context_lens": context_lens, "cu_seqlens_q": cu_seqlens_q}):
            raise RuntimeError("no such launch")
        position_ids.copy_(right_positions(token_to_request, cu_seqlens_q, context_lens))

    return launch


def slots_that_raise(is_hit: Callable[[torch.Tensor, torch.Tensor], bool]) -> Callable[..., None]:
    """Return right slots of decodes that raise where the block table or the lengths say so."""

    def launch(
        token_to_request: torch.Tensor,
        position_ids: torch.Tensor,
        block_table: torch.Tensor,
        block_size: int,
        slot_mapping: torch.Tensor,
    ) -> None:
        if is_hit(block_table, token_to_request):
            raise RuntimeError("no such table")
        slot_mapping.fill_(-1)
        for t, b in enumerate(token_to_request.tolist()):
            if b >= 0:
                position = int(position_ids[t])
                block = int(block_table[b, position // block_size])
                slot_mapping[t] = block * block_size + position % block_size

    return launch


def failure_on(
    function: Callable[..., Any], operation: str, case: Case = SMALL, *, reduce: bool = False, **more: Any
) -> Failure:
    binding = binding_of(function, operation)
    verdict = search(binding, DEVICE, Budget(examples=0), first=[case], reduce=reduce, **more)
    assert verdict.failure is not None
    return verdict.failure


many = raises_where(lambda given: given["context_lens"].numel() > 3)


def test_the_larger_case_on_which_the_kernel_raises_is_the_one_told() -> None:
    failure = failure_on(many, "position_ids")
    assert (failure.finding.check, failure.case.num_requests_padded) == ("agrees", 4)
    assert "no such launch" in failure.finding.message
    reduced = failure_on(many, "position_ids", reduce=True)
    assert (reduced.finding.check, reduced.case.num_requests_padded) == ("agrees", 4)
    assert reduced.case.batch.num_tokens == 0


@pytest.mark.parametrize("check", ["forgets_history", "keeps_facts"])
def test_a_single_check_tells_the_larger_case_as_its_own(check: str) -> None:
    case = replace(SMALL, batch=replace(SMALL.batch, requests=(*SMALL.batch.requests, Request(0, 0))))
    failure = failure_on(many, "position_ids", case, checks=[check])
    assert failure.finding.check == check
    assert failure.case.num_requests_padded >= 4
    again = failure_on(many, "position_ids", failure.case, checks=["agrees"])
    assert again.case == failure.case


def test_a_kernel_that_raises_only_after_another_call_is_told_with_that() -> None:
    sizes: list[int] = []

    def raises_on_fewer(given: dict[str, torch.Tensor]) -> bool:
        sizes.append(given["context_lens"].numel())
        return len(sizes) > 1 and sizes[-2] > sizes[-1]

    failure = failure_on(raises_where(raises_on_fewer), "position_ids", checks=["forgets_history"])
    assert failure.case == SMALL
    assert failure.finding.message.endswith(", after a call on a case twice as large in the same buffers")


@pytest.mark.parametrize(
    ("check", "is_hit", "field"),
    [
        ("accepts_strides", lambda table, rows: not table.is_contiguous(), "strides"),
        ("accepts_index_types", lambda table, rows: table.dtype == torch.int64, "index_dtype"),
    ],
)
def test_strides_and_widths_on_which_it_raises_are_in_the_case(
    check: str, is_hit: Callable[[torch.Tensor, torch.Tensor], bool], field: str, tmp_path: Path
) -> None:
    function = slots_that_raise(is_hit)
    failure = failure_on(function, "slot_mapping", save_to=tmp_path)
    assert failure.finding.check == check and failure.file is not None
    assert getattr(failure.case.layout, field) != getattr(Layout(), field)
    assert failure.finding.message.endswith(
        "strided views" if check == "accepts_strides" else "ids were int64"
    )
    again = failure_on(function, "slot_mapping", load_failure(failure.file).case)
    assert again == replace(failure, file=None)


def test_large_ids_on_which_it_raises_are_told() -> None:
    function = slots_that_raise(lambda table, rows: bool((table > 2**20).any()))
    failure = failure_on(function, "slot_mapping")
    assert (failure.finding.check, failure.case) == ("survives_large_ids", SMALL)
    assert "no such table" in failure.finding.message
    assert "is added to every block id" in failure.finding.message
    assert failure.finding.left_out_by.endswith("Domain(max_block_id=65535)")
    told = f"  if no engine makes such a call: promise {failure.finding.left_out_by}"
    assert told in case_lines(failure.case, failure.finding)


def job(target: str, **more: Any) -> Job:
    known: dict[str, Any] = {"operation": "position_ids", "device": DEVICE, "limit": 60, "cases": (SMALL,)}
    return Job(target=f"{CRASHING}:{target}", budget=Budget(0), **(known | more))


def test_the_larger_case_on_which_the_process_dies_is_the_one_saved_and_reduced(tmp_path: Path) -> None:
    verdict = search_isolated(job("crashes_on_three_requests", failures=tmp_path))
    assert verdict.failure is not None and verdict.failure.file is not None
    assert verdict.failure.finding.check == "agrees"
    assert verdict.failure.finding.message == "the process died with signal 11"
    assert verdict.failure.case.num_requests_padded == 3
    saved = load_failure(verdict.failure.file)
    assert (saved.case, saved.finding.check) == (verdict.failure.case, "agrees")


def test_the_larger_case_on_which_it_hangs_is_the_one_told() -> None:
    one = replace(SMALL, batch=replace(SMALL.batch, requests=SMALL.batch.requests[:1]))
    verdict = search_isolated(job("never_returns", cases=(one,), limit=1, reduce=False))
    assert verdict.failure is not None
    assert verdict.failure.finding.check == "agrees"
    assert verdict.failure.case.num_requests_padded == 2
    alone = job("never_returns", cases=(one,), limit=1, reduce=False, checks=("keeps_facts",))
    failure = search_isolated(alone).failure
    assert failure is not None and failure.finding.check == "keeps_facts"
    assert failure.case.num_requests_padded == 2


def test_options_are_told_by_name_and_long_lists_by_their_first_entries() -> None:
    requests = tuple(Request(0, 1, (b,)) for b in range(10))
    case = Case(Batch(requests, 4), Layout(row_index=tuple(range(9, -1, -1))), Options.of(window=3, rank=0))
    rows = "row_index=(9, 8, 7, 6, 5, 4, 3, 2, … 2 more)"
    assert case_lines(case, None) == [f"  layout: {rows}", "  options: window=3"]
