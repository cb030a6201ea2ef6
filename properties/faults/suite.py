"""The suite against mutants of one kernel: a few cases that kill most, then a wider search."""

import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from itertools import islice
from typing import Any

from cumae.oracle import Case
from cumae.properties.cases.draws import edited
from cumae.properties.cases.seeded import seeded_cases
from cumae.properties.checks import Trial, checks_for
from cumae.properties.faults.mutants import Mutant, swapped
from cumae.properties.faults.outcome import Clock, Outcome, OutOfTime
from cumae.properties.faults.scope import plain
from cumae.properties.interpreter.hooks import watching
from cumae.properties.operations.binding import Binding, binding_of
from cumae.properties.operations.constants import constants_of
from cumae.properties.operations.targets import load_function
from cumae.properties.results.verdict import Finding
from cumae.properties.running.device import Device, interpreting
from cumae.properties.search.budget import Budget
from cumae.properties.search.findings import device_lost, finding_of
from cumae.properties.search.first_cases import fixture_cases
from cumae.properties.search.loop import search
from cumae.properties.search.traces import TraceRun, traced_checks
from cumae.properties.state.walks import walk
from cumae.properties.steps.ladder import Ladder

QUICK = ("agrees", "writes_everything", "stays_in_bounds")
NUM_SMALL, NUM_THOROUGH = 12, 8
MOST_LOOKED_AT = 4000
SHORTEST, SLOWER = 1.0, 8
LARGE: tuple[Callable[[Case], bool], ...] = (
    lambda case: case.num_tokens_padded > 1024 and len(case.batch.requests) <= 12,
    lambda case: case.num_requests_padded == 1025 and case.batch.num_tokens > 0,
    lambda case: case.num_requests_padded > 1025 and case.batch.num_tokens > 1024,
    lambda case: case.num_requests_padded == 2048,
    lambda case: case.num_requests_padded > 1024 and case.options.padding.dummy_request,
    lambda case: case.num_tokens_padded == 1025,
)
"""Kinds of cases that exceed a tile: barely and by far, in tokens and in requests."""
FAR = range(2_048, 8_193)
"""Sizes in the source of a target that a case of more requests exceeds."""
TRACES, STEPS = 4, 8


class Suite:
    """The checks and cases for one kernel, ordered to kill early: a case that has killed comes first.

    ``limit``: seconds that a case may take; ``examples``: cases of the wider search; ``checks``: only these.
    """

    def __init__(
        self,
        target: str,
        operation: str,
        dialect: str,
        device: Device,
        *,
        limit: float = 5.0,
        examples: int = 25,
        checks: tuple[str, ...] | None = None,
    ) -> None:
        self.target = target
        self.device = device
        self.function = load_function(target)
        self._names = (operation, dialect)
        self._examples = examples
        self.limit = limit
        self._clock = Clock(limit if device == "cpu" else 12 * limit)  # on a GPU it is compiled first
        self._brief: Clock | None = None
        self._stopped = False
        binding = self.bound()
        self._checks = checks or checks_for(binding, device)
        small, self._large = _small_and_large(binding)
        self._far = _far(binding, self.function)
        self._thorough = small[:NUM_THOROUGH]
        self._cases = [*small, *fixture_cases(binding)]

    def bound(self) -> Binding:
        """Return the binding of the target as its module defines it now."""
        inner = plain(self.function)
        now = vars(sys.modules[inner.__module__])[inner.__qualname__]
        return binding_of(now, *self._names)

    def refuse_a_wrong_target(self) -> None:
        """Raise ``ValueError`` if the target itself fails: every mutant would count as killed."""
        self._refuse_unless_right(self._proved)

    def _refuse_unless_right(self, find: Callable[[Binding], tuple[Finding, int] | None]) -> None:
        outcome = self._of(None, find)
        if outcome is not None:
            what = f"{outcome.by}: {outcome.message}"
            raise ValueError(f"target = {self.target!r}, must be right before it is mutated: {what}")

    def kill(self, mutant: Mutant) -> Outcome | None:
        """Return the outcome of small cases, None if the mutant survives them.

        A case may take eight times as long as the slowest of them takes on the target itself.
        """
        whole = self._clock
        if self.device == "cpu" and self._brief is None:
            whole.longest = 0.0  # the proof before it also ran large cases
            self._refuse_unless_right(self._first)
            self._brief = Clock(min(whole.seconds, max(SHORTEST, SLOWER * whole.longest)))
        self._clock = self._brief or whole
        try:
            return self._of(mutant, self._first)
        finally:
            self._clock = whole

    def kill_by_search(self, mutant: Mutant) -> Outcome | None:
        """Return the outcome of the other checks, large cases and a search, None if the mutant survives."""
        return self._of(mutant, self._searched)

    @property
    def is_lost(self) -> bool:
        """Return whether this process can no longer be used.

        A mutant lost the CUDA context, or was stopped at an arbitrary point, such as an import.
        """
        return self._stopped or device_lost(self.device)

    def _of(
        self, mutant: Mutant | None, find: Callable[[Binding], tuple[Finding, int] | None]
    ) -> Outcome | None:
        with self._clock.running():
            try:
                with swapped(mutant) if mutant else nullcontext():
                    found = find(self.bound())
            except OutOfTime:
                self._stopped = True
                return Outcome("killed", "time limit", 0, f"no answer within {self._clock.seconds:.1f} s")
        if found is None:
            return None
        finding, count = found
        return Outcome("killed", finding.check, count, finding.message)

    def _proved(self, binding: Binding) -> tuple[Finding, int] | None:
        return self._first(binding) or self._closer(binding)

    def _first(self, binding: Binding) -> tuple[Finding, int] | None:
        """Run the quick checks on small cases, and traces of stateful operations."""
        if binding.keeps_state and (found := self._traced(binding)):
            return found
        quick = tuple(name for name in QUICK if name in self._checks)
        return self._tried(binding, quick, self._cases)

    def _closer(self, binding: Binding) -> tuple[Finding, int] | None:
        """Run the other checks on a few cases, the quick ones on large cases, and traces."""
        others = tuple(name for name in self._checks if name not in QUICK)
        found = self._tried(binding, others, self._thorough) or self._tried(binding, QUICK, self._large)
        found = found or self._tried(binding, (*QUICK, "ignores_garbage"), self._far)
        if found is None and not binding.keeps_state:
            found = self._traced(binding)
        return found

    def _tried(
        self, binding: Binding, checks: tuple[str, ...], cases: list[Case]
    ) -> tuple[Finding, int] | None:
        """Run checks on cases; a case with a finding comes first from now on."""
        for count, case in enumerate(cases, 1):
            trial = Trial(binding, case, self.device)
            for check in checks:
                if check not in self._checks:
                    continue
                self._clock.wind()
                # Earlier cases' buffers are reused here without guards.
                with watching() if check == "forgets_history" and interpreting() else nullcontext():
                    finding = finding_of(check, trial)
                if finding is not None:
                    cases.remove(case)
                    cases.insert(0, case)
                    return finding, count
        return None

    def _traced(self, binding: Binding) -> tuple[Finding, int] | None:
        """Run a few short traces."""
        count = 0
        for check in traced_checks(binding, self._checks):
            for number in range(TRACES * (3 if binding.keeps_state else 1)):
                run = TraceRun(binding, self.device, check)
                for case in islice(walk(binding, number), STEPS):
                    self._clock.wind()
                    count += 1
                    finding = run.step(case) if binding.why_not(case) is None else None
                    if finding is not None:
                        return finding, count
        return None

    def _searched(self, binding: Binding) -> tuple[Finding, int] | None:
        found = self._closer(binding)
        if found is not None:
            return found
        verdict = search(
            binding,
            self.device,
            Budget(examples=self._examples, seed=1),
            checks=self._checks,
            before=self._clock.wind,
            reduce=False,
        )
        if verdict.failure is None:
            return None
        return verdict.failure.finding, len(self._cases) + verdict.failure.found_after


def _small_and_large(binding: Binding) -> tuple[list[Case], list[Case]]:
    """Return small drawn cases, and large ones: one of each kind that exceeds a tile, and an idle one."""
    small: list[Case] = []
    large: dict[Callable[[Case], bool], Case] = {}
    for case in islice(seeded_cases(0, binding.domain, binding.features), MOST_LOOKED_AT):
        if case.num_tokens_padded <= 40 and len(case.batch.requests) <= 12:
            if len(small) < NUM_SMALL:
                small.append(case)
            continue
        kind = next((kind for kind in LARGE if kind not in large and kind(case)), None)
        if kind is not None:
            large[kind] = case
        if len(small) == NUM_SMALL and len(large) == len(LARGE):
            break
    many = [case for case in large.values() if len(case.batch.requests) > 1000]
    idle = [
        edited(case, [replace(r, query_len=0) for r in case.batch.requests], case.layout.row_index)
        for case in many[:1]
    ]
    return small, [*large.values(), *(case for case in idle if binding.why_not(case) is None)]


def _far(binding: Binding, function: Callable[..., Any]) -> list[Case]:
    """Return a case of more requests than the largest size that the target's source shows, if that is far."""
    size = max(filter(FAR.__contains__, constants_of(function)), default=0)
    case = Ladder(binding.domain, binding.features).requests(size + 3, 3) if size else None
    return [case] if case is not None and binding.why_not(case) is None else []
