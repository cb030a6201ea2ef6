"""Faults that need two steps are found in a trace, reduced, saved and shown again."""

from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from cumae.fixtures.bugs import BUGS, Bug
from cumae.fixtures.correct.cumae import causal_windows
from cumae.fixtures.limits.limit import step
from cumae.gpu_impl import PersistentBuffers
from cumae.oracle import Batch, Case, Layout, Request, Trace, leveled, trace_from_json, trace_to_json
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.trace_reducer import reduce_trace
from cumae.properties.operations.binding import binding_of
from cumae.properties.results.explain import explain
from cumae.properties.results.failure_file import load_failure
from cumae.properties.results.steps import svg_steps
from cumae.properties.running.device import prepare
from cumae.properties.running.tensors import tensors
from cumae.properties.search.budget import Budget
from cumae.properties.search.loop import search
from cumae.properties.search.traces import TraceRun
from cumae.properties.state.system import System
from cumae.properties.state.walks import walk
from cumae.properties.tests.given.walks import bound, steps_of
from cumae.properties.tests.helpers.command_line import cumae

DEVICE = prepare("auto")
STATEFUL = {
    "EmptyBuffers",
    "IdleStepKeepsSchedule",
    "KeyOfMinima",
    "LensOfTheCapture",
    "LensOfTheRoundBefore",
    "PaddedRowsKeepSlots",
}
IN_STEPS = [bug for bug in BUGS if bug.name in STATEFUL]
SLOTS = next(bug for bug in BUGS if bug.report == "vllm#36580")


@pytest.mark.parametrize("bug", [*IN_STEPS, SLOTS], ids=lambda bug: bug.target.rpartition(":")[2])
def test_a_fault_that_needs_steps_is_found_and_reduced_to_two(bug: Bug, tmp_path: Path) -> None:
    binding = bound(bug.operation, bug.target, bug.dialect)
    budget = Budget(seconds=120, seed=3)
    verdict = search(binding, DEVICE, budget, checks=["forgets_history"], save_to=tmp_path)
    failure = verdict.failure
    assert failure is not None and failure.trace is not None and failure.file is not None
    assert len(failure.trace.steps) <= 2
    assert all(len(step.batch.requests) <= 2 and step.num_tokens_padded <= 4 for step in failure.trace.steps)
    assert load_failure(failure.file).trace == failure.trace
    assert f"step {len(failure.trace.steps)} of {len(failure.trace.steps)}" in explain(verdict)


def test_one_call_does_not_show_what_needs_two() -> None:
    for bug in IN_STEPS:
        if "review" in bug.report:
            continue  # the first step over new buffers shows it
        binding = bound(bug.operation, bug.target, bug.dialect)
        verdict = search(binding, DEVICE, Budget(examples=60), checks=["agrees"])
        assert verdict.ok, (bug, verdict.failure)


def test_buffers_are_cleared_no_further_than_they_were_written() -> None:
    """A canary behind both extents survives, where a step that clears everything overwrites it."""
    step = Case(Batch((Request(3, 2, (1, 2)),), 4), Layout(num_spare_tokens=4))
    smaller = Case(Batch((Request(5, 1, (1, 2)),), 4), Layout(num_spare_tokens=5))
    names = ("token_to_request", "cu_seqlens_q", "context_lens", "topk_indices", "block_table", "block_size")
    buffers = PersistentBuffers(6, 2, torch.device(DEVICE))
    kept = buffers(**tensors(step, device=DEVICE, names=names))
    for tensor, live in ((kept.token_to_request, 2), (kept.kv_indices, 4)):
        tensor[live:] = 77
    kept = buffers(**tensors(smaller, device=DEVICE, names=names))
    assert kept.token_to_request.tolist() == [0, -1, 77, 77, 77, 77]
    assert kept.kv_indices.tolist()[2:] == [-1, -1, *[77] * 8]


class Mover:
    """Right values at another address each time."""

    def __init__(self) -> None:
        self.kept: list[torch.Tensor] = []

    def __call__(
        self, context_lens: torch.Tensor, query_lens: torch.Tensor, num_tokens_padded: int
    ) -> torch.Tensor:
        positions = [
            context_len + i
            for context_len, query_len in zip(context_lens.tolist(), query_lens.tolist(), strict=True)
            for i in range(query_len)
        ]
        padding = [0] * (num_tokens_padded - len(positions))
        self.kept.append(torch.tensor(positions + padding, dtype=torch.int64, device=context_lens.device))
        return self.kept[-1]


def test_a_buffer_that_moves_is_told() -> None:
    binding = binding_of(Mover, "position_ids")
    verdict = search(binding, DEVICE, Budget(seconds=20), checks=["forgets_history"])
    assert verdict.failure is not None and verdict.failure.trace is not None
    assert len(verdict.failure.trace.steps) == 2
    assert "`position_ids` was returned at another address" in verdict.failure.finding.message


def test_a_trace_survives_its_json() -> None:
    trace = Trace(tuple(steps_of(7, 5)))
    assert trace_from_json(trace_to_json(trace)) == trace


STEP = Case(Batch((Request(0, 2, (1,)),), 4))


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ((), r"steps = \(\), must be a list of at least one case"),
        ((STEP, 3), r"steps\[1\] = 3, must be a Case"),
        (
            (STEP, Case(Batch((), 2), Layout(num_spare_tokens=2))),
            r"steps\[1\].batch.block_size = 2, must be 4, as in the first step",
        ),
        ((STEP, Case(Batch((), 4))), r"steps\[1\].max_num_tokens = 0, must be 2, as in the first step"),
    ],
)
def test_steps_of_two_engines_are_no_trace(steps: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Trace(steps)


def test_a_trace_is_reduced_to_the_steps_that_matter() -> None:
    def shrinks(trace: Trace) -> bool:
        return any(a.batch.num_tokens > b.batch.num_tokens for a, b in pairwise(trace.steps))

    trace = Trace(tuple(steps_of(3, 30)))
    reduced = reduce_trace(trace, shrinks)
    assert [step.batch.num_tokens for step in reduced.steps] == [1, 0]
    assert leveled(reduced.steps) == reduced


def test_a_saved_trace_is_replayed_reduced_and_drawn(tmp_path: Path) -> None:
    target = "cumae.fixtures.bugs.schedules:KeyOfMinima"
    verdict = search(
        bound("metadata_cache", target),
        DEVICE,
        Budget(seconds=60),
        checks=["forgets_history"],
        save_to=tmp_path,
        target=target,
        reduce=False,
    )
    assert verdict.failure is not None and verdict.failure.file is not None
    file = str(verdict.failure.file)
    again = cumae("replay", file, cwd=tmp_path)
    assert again.returncode == 1, again.stderr
    assert "step 2 of" in again.stdout
    fixed = cumae("replay", file, "--target", "cumae.gpu_impl:MetadataCache", cwd=tmp_path)
    assert fixed.returncode == 0, fixed.stderr + fixed.stdout
    out = tmp_path / "small.json"
    reduced = cumae("reduce", file, "--out", str(out), cwd=tmp_path)
    assert reduced.returncode == 1, reduced.stderr
    small = load_failure(out).trace
    assert small is not None and len(small.steps) == 2
    drawn = cumae("draw", str(out), "--svg", "trace.svg", "--html", "trace.html", cwd=tmp_path)
    assert drawn.returncode == 0, drawn.stderr
    assert "step 1 of 2" in drawn.stdout and "written: trace.svg\nwritten: trace.html" in drawn.stdout
    assert (tmp_path / "trace.svg").read_text() == svg_steps(small, load_failure(out).finding)


def test_host_lens_that_are_missing_may_be_refused_but_not_guessed() -> None:
    hidden = Case(Batch((Request(3, 1, (1,), "decode"),), 4), Layout(host_lens=False))

    def refuses(**_: Any) -> Any:
        raise ValueError("context_lens_cpu = None, must be given")

    binding = bound("metadata_cache", "cumae.gpu_impl:MetadataCache")
    system = System(binding, DEVICE)
    system.function = refuses
    assert system.step(hidden) is None
    known = hidden.laid_out(host_lens=True)
    run = TraceRun(binding, DEVICE, "forgets_history")
    run._system.function = refuses
    finding = run.step(known)
    assert finding is not None and "the kernel raised ValueError" in finding.message


def test_a_domain_holds_for_traces_too() -> None:
    asked: list[Case] = []

    class Positions:
        def __call__(self, context_lens: Any, query_lens: Any, position_ids: Any) -> None:
            raise NotImplementedError

    binding = binding_of(Positions, "position_ids", domain=Domain(block_sizes=(5,), min_requests=2))
    for case in islice(walk(binding, 2), 30):
        if binding.why_not(case) is None:
            asked.append(case)
    assert asked and all(case.batch.block_size == 5 for case in asked)


class WindowsOnce:
    """Returns the windows of a step again as long as there are equally many tokens."""

    def __init__(self) -> None:
        self._answer: tuple[torch.Tensor, ...] = ()

    def __call__(
        self,
        token_to_request: torch.Tensor,
        position_ids: torch.Tensor,
        cu_seqlens_k: torch.Tensor,
        is_prefill: torch.Tensor,
        compress_ratio: int,
        window: int,
        world: int,
        rank: int,
        interleave: int,
    ) -> tuple[torch.Tensor, ...]:
        given = (token_to_request, position_ids, cu_seqlens_k, is_prefill)
        if not self._answer or len(self._answer[0]) != len(token_to_request):
            found = causal_windows(*given, compress_ratio, window, world, rank, interleave)
            self._answer = tuple(found)
        return tuple(one.clone() for one in self._answer)


def test_the_answer_of_the_step_before_is_named() -> None:
    steps = leveled([step((20, 3)), step((30, 3))])
    binding = binding_of(WindowsOnce, "causal_windows", domain=Domain(captured=False))
    verdict = search(binding, DEVICE, Budget(examples=0), checks=["forgets_history"], first=[steps])
    assert verdict.failure is not None
    assert verdict.failure.finding.cause == "stale: the answer of the step before"


class SlotsOnce:
    """Slots of the first step."""

    def __init__(self) -> None:
        self._slots: torch.Tensor | None = None

    def __call__(
        self,
        token_to_request: torch.Tensor,
        position_ids: torch.Tensor,
        block_table: torch.Tensor,
        block_size: int,
    ) -> torch.Tensor:
        if self._slots is None:
            blocks = block_table[token_to_request.long(), position_ids.long() // block_size].long()
            self._slots = torch.where(blocks < 0, blocks, blocks * block_size + position_ids % block_size)
        return self._slots.clone()


@pytest.mark.parametrize(("block", "cause"), [(-1, ""), (3, "stale: the answer of the step before")])
def test_none_in_two_steps_is_no_answer_of_the_step_before(block: int, cause: str) -> None:
    blocks = (block, 5)
    steps = leveled([Case(Batch((Request(0, 2, (one,)), Request(0, 2, (7,))), 4)) for one in blocks])
    binding = binding_of(SlotsOnce, "slot_mapping", domain=Domain(captured=False))
    how: dict[str, Any] = {"checks": ["forgets_history"], "first": [steps], "reduce": False}
    verdict = search(binding, DEVICE, Budget(examples=0), **how)
    assert verdict.failure is not None
    assert verdict.failure.finding.cause == cause


class OneMoreLater:
    """Returns positions that are one too large from the second step on."""

    def __init__(self) -> None:
        self._more = 0

    def __call__(
        self, context_lens: torch.Tensor, query_lens: torch.Tensor, num_requests: int, num_tokens_padded: int
    ) -> torch.Tensor:
        lens = zip(context_lens[:num_requests].tolist(), query_lens[:num_requests].tolist(), strict=True)
        found = torch.zeros(num_tokens_padded, dtype=torch.int64, device=DEVICE)
        live = [position for start, count in lens for position in range(start, start + count)]
        found[: len(live)] = torch.tensor(live, dtype=torch.int64) + self._more
        self._more = 1
        return found


def test_a_trace_says_that_a_new_instance_is_right_and_not_what_the_numbers_suggest() -> None:
    steps = leveled([step((20, 3)), step((30, 2))])
    domain = Domain(captured=False, all_but=("never_synchronises",))
    binding = binding_of(OneMoreLater, "position_ids", domain=domain)
    verdict = search(binding, DEVICE, Budget(examples=0), checks=["forgets_history"], first=[steps])
    assert verdict.failure is not None
    assert verdict.failure.finding.cause == "an earlier step: a new instance is right on this one"
