"""Suite against wrong oracles: hand-worked fixtures, docstring examples, and a second formulation."""

import doctest
import io
import sys
from collections.abc import Iterable
from contextlib import nullcontext, redirect_stdout
from dataclasses import replace
from importlib import import_module
from itertools import islice
from typing import Any

from cumae.fixtures import OPERATIONS as WITH_FIXTURES
from cumae.fixtures import load
from cumae.oracle import ANY, UNTOUCHED, Case
from cumae.properties.cases.seeded import seeded_cases
from cumae.properties.faults.mutants import Mutant, swapped
from cumae.properties.faults.outcome import Clock, Outcome, OutOfTime
from cumae.properties.faults.small_domain import CASES, PAIRS, small_cases, small_traces
from cumae.properties.operations import OPERATIONS
from cumae.properties.operations.binding import binding_of
from cumae.properties.operations.targets import load_function

Step = tuple[Case | None, Case]
Question = tuple[str, Step, Any]
NUM_FIRST, NUM_MORE = 150, 600
_WORDS: dict[Any, Any] = {ANY: "any", UNTOUCHED: "untouched"}


class OracleSuite:
    """Compares an oracle's mutants with answers worked out by hand and with the simulation.

    The simulation handles one token after the other. It is part of the tests, so only a checkout has it.
    Raises ``ValueError`` without it, and for a target that is not the oracle of an operation.
    """

    def __init__(self, target: str, *, limit: float = 5.0) -> None:
        function = load_function(target)
        names = [name for name, operation in OPERATIONS.items() if operation.oracle is function]
        if not names:
            raise ValueError(f"target = {target!r}, must be the oracle of an operation")
        try:
            self._simulated = import_module("cumae.properties.tests.simulation.simulated")
            self._traces = import_module("cumae.properties.tests.given.traces")
        except ModuleNotFoundError as error:
            raise ValueError(f"target = {target!r}, must be mutated in a checkout: {error}") from error
        self.function = function
        self._operation = OPERATIONS[names[0]]
        self._clock = Clock(limit)
        self._is_stateful = names[0] in self._simulated.STATEFUL_ORACLES
        self._first = [*self._fixtures(), *self._asked(1, NUM_FIRST)]
        self._more: list[Question] = []
        self._small: list[Question] = []

    def refuse_a_wrong_target(self) -> None:
        """Raise ``ValueError`` if the oracle itself is wrong: every mutant would count as killed."""
        outcome = self.kill(None)
        if outcome is not None:
            raise ValueError(f"target = {self.function.__name__!r}, must be right: {outcome.by}")

    def kill(self, mutant: Mutant | None) -> Outcome | None:
        """Return the outcome with the judge that kills a mutant, None if none does."""
        return self._noticed(mutant, self._first, doctests=True)

    def kill_by_search(self, mutant: Mutant) -> Outcome | None:
        """Return the outcome if the simulation kills a mutant on more cases, else None."""
        self._more = self._more or list(self._asked(2, NUM_MORE))
        return self._noticed(mutant, self._more)

    def compare(self, mutant: Mutant) -> Outcome:
        """Return whether the mutant and the oracle agree on the whole small domain."""
        self._small = self._small or [("", step, self._answer(step)) for step in self._domain()]
        outcome = self._noticed(mutant, self._small)
        if outcome is None:
            said = PAIRS if self._is_stateful else CASES
            described = f"{said}, at block size 2 ({len(self._small)} of them)"
            return Outcome("equal on the small domain", described, len(self._small))
        return Outcome("survived", "", outcome.cases, f"it differs from the oracle on {outcome.message}")

    def _noticed(
        self, mutant: Mutant | None, questions: Iterable[Question], *, doctests: bool = False
    ) -> Outcome | None:
        try:
            with self._clock.running(), swapped(mutant) if mutant else nullcontext():
                if doctests and not self._examples_hold():
                    return Outcome("killed", "examples", 0)
                for count, (judge, step, answer) in enumerate(questions, 1):
                    self._clock.wind()
                    if self._answer(step) != answer:
                        return Outcome("killed", judge, count, str(step))
        except OutOfTime:
            return Outcome("killed", "time limit")
        return None

    def _answer(self, step: Step) -> Any:
        """Return the answer, or the error as text, of the oracle as its module defines it now."""
        previous, case = step
        now = vars(sys.modules[self.function.__module__])[self.function.__name__]
        try:
            return self._simulated.oracle_answer(now, case, previous)
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    def _examples_hold(self) -> bool:
        with redirect_stdout(io.StringIO()):
            return doctest.testmod(sys.modules[self.function.__module__]).failed == 0

    def _fixtures(self) -> Iterable[Question]:
        if self._operation.name not in WITH_FIXTURES:
            return
        for fixture in load(self._operation.name):
            if fixture.case is not None and fixture.expected is not None:
                expected = {
                    name: [_WORDS.get(value, value) for value in values]
                    for name, values in fixture.expected.items()
                }
                yield "fixtures", (None, fixture.case), expected

    def _asked(self, seed: int, count: int) -> Iterable[Question]:
        drawn: Iterable[Step]
        if self._is_stateful:
            drawn = self._traces.seeded_traces(seed * 10_000)
        else:
            drawn = ((None, case) for case in seeded_cases(seed, features=self._operation.features))
        for previous, case in islice(drawn, count):
            answer = self._simulated.simulated_answer(self._operation.name, case, previous)
            yield "simulation", (previous, case), answer

    def _domain(self) -> Iterable[Step]:
        operation = self._operation
        if operation.kernels:
            binding = binding_of(load_function(operation.kernels[0]), operation)
        else:
            binding = replace(binding_of(operation.oracle, operation), features=operation.features)
        if self._is_stateful:
            return [(trace.steps[0], trace.steps[1]) for trace in small_traces(binding)]
        return [(None, case) for case in small_cases(binding)]
