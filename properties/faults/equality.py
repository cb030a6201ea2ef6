"""Comparison of a mutant with its original on every case of the small domain."""

import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from types import FrameType
from typing import Any

import numpy as np

from cumae.properties.checks import Trial
from cumae.properties.comparing.judged import wrong_answer
from cumae.properties.faults.mutants import Mutant, swapped
from cumae.properties.faults.outcome import Clock, Outcome, OutOfTime
from cumae.properties.faults.scope import Part, scope_of
from cumae.properties.faults.small_domain import CASES, PAIRS, small_cases, small_traces
from cumae.properties.faults.suite import QUICK, Suite
from cumae.properties.operations import FREE, UNORDERED
from cumae.properties.results.verdict import Finding
from cumae.properties.running.bench import Bench
from cumae.properties.running.observation import KernelRaised
from cumae.properties.running.words import Words
from cumae.properties.search.findings import finding_of
from cumae.properties.search.traces import TraceRun

CUT_TO = 2
NUM_SOME = 40
Answer = tuple[tuple[tuple[str, Words], ...], tuple[str, ...]] | str


class SmallDomain:
    """A target's own answers on the small domain, and the lines of its source that ran.

    Powers of two among its modules' constants become 2 if the target stays right with them. Its tiles are
    then small, and a step of three tokens has several.
    """

    def __init__(self, suite: Suite) -> None:
        self._suite = suite
        self._parts = scope_of(suite.function)
        binding = suite.bound()
        self._is_stateful = binding.keeps_state
        self._traces = small_traces(binding) if self._is_stateful else []
        self._cases = [] if self._is_stateful else small_cases(binding)
        self._cut = self._may_cut()
        self._lines: set[tuple[str, int]] = set()
        files = {inspect.getsourcefile(sys.modules[part.module]): part.module for part in self._parts}
        with self._tiles():
            with _reached(files, self._lines):
                self._answers = {i: self._answer(i) for i in self._some()}
            self._answers |= {i: self._answer(i) for i in range(self.size) if i not in self._answers}

    @property
    def size(self) -> int:
        """The number of cases, or of pairs of steps, in the domain."""
        return len(self._traces) if self._is_stateful else len(self._cases)

    @property
    def described(self) -> str:
        """The domain in words."""
        tiles = f", tiles cut to {CUT_TO}" if self._cut else ""
        return f"{PAIRS if self._is_stateful else CASES}, at block size 2 ({self.size} of them{tiles})"

    def compare(self, mutant: Mutant) -> Outcome:
        """Return whether the mutant is equal on the whole domain, or the first difference.

        The mutant is killed if a check fails it on that case and passes the target, or if it gives no answer.
        """
        if not any((mutant.module, line) in self._lines for line in range(mutant.first, mutant.last + 1)):
            return Outcome("survived", "", self.size, "its line is not seen to run on the small domain")
        clock = Clock(self._suite.limit)
        try:
            with clock.running(), swapped(mutant), self._tiles():
                for i in range(self.size):
                    clock.wind()
                    if not _equal(self._answer(i), self._answers[i]):
                        found = self._finding(i)
                        break
                else:
                    return Outcome("equal on the small domain", self.described, self.size)
            with self._tiles():
                if found is not None and self._finding(i) is None:
                    return Outcome("killed", f"{found.check}, small domain", i + 1, found.message)
            return Outcome("survived", "", i + 1, f"it differs from the original on {self._told(i)}")
        except OutOfTime:
            message = f"no answer within {clock.seconds:g} s"
            return Outcome("killed", "time limit, small domain", 0, message)

    def _told(self, i: int) -> str:
        tried = self._traces[i] if self._is_stateful else self._cases[i]
        cut = f"with tiles cut to {CUT_TO}, " if self._cut else ""
        return f"{cut}{tried}"

    def _finding(self, i: int) -> Finding | None:
        """Return the finding of a check on one case, for the target as its module defines it now."""
        binding, device = self._suite.bound(), self._suite.device
        if self._is_stateful:
            return TraceRun(binding, device, "forgets_history").all(self._traces[i])
        trial = Trial(binding, self._cases[i], device)
        return next(filter(None, (finding_of(check, trial) for check in QUICK)), None)

    def _answer(self, i: int) -> Answer:
        binding = self._suite.bound()
        if self._is_stateful:
            finding = self._finding(i)
            return finding.message if finding else ""
        return _answer(Bench(binding, self._cases[i], self._suite.device))

    def _may_cut(self) -> bool:
        """Return whether the target gives the same answers with small tiles, on a part of the domain."""
        whole = {i: self._answer(i) for i in self._some()}
        with cut_tiles(self._parts) as changed:
            return changed and all(_equal(self._answer(i), was) for i, was in whole.items())

    def _some(self) -> set[int]:
        """Return cases spread over the domain, one of them without tokens."""
        empty = (i for i, case in enumerate(self._cases) if case.num_tokens_padded == 0)
        return {*range(0, self.size, max(1, self.size // NUM_SOME)), *islice(empty, 1)}

    @contextmanager
    def _tiles(self) -> Iterator[None]:
        if not self._cut:
            yield
            return
        with cut_tiles(self._parts):
            yield


@contextmanager
def cut_tiles(parts: list[Part]) -> Iterator[bool]:
    """Set the powers of two from 16 on among the constants of a target's modules to 2, also those in tuples.

    Yields whether there are any.
    """
    changed: list[tuple[dict[str, Any], str, Any]] = []
    for names in {part.module: part.globals for part in parts}.values():
        for name, value in names.items():
            sizes = value if type(value) is tuple else (value,)
            if name.isupper() and sizes and all(map(_is_tile, sizes)):
                changed.append((names, name, value))
    try:
        for names, name, value in changed:
            names[name] = (CUT_TO,) * len(value) if type(value) is tuple else CUT_TO
        yield bool(changed)
    finally:
        for names, name, value in changed:
            names[name] = value


def _is_tile(value: object) -> bool:
    return type(value) is int and 16 <= value <= 2**16 and not value & (value - 1)


def _answer(bench: Bench) -> Answer:
    """Return the specified outputs of a call and its other effects, or the exception."""
    try:
        seen = bench.observe()
    except KernelRaised as error:
        return str(error)
    expected = bench.expected()
    outside = tuple(map(str, seen.watch.outside)) if seen.watch else ()
    words = []
    for name, found in seen.outputs.items():
        state = expected[name].state
        is_open = np.isin(state, (FREE, UNORDERED))
        words.append((name, found[~is_open] if len(state) == len(found) else found))
    wrong = wrong_answer("agrees", bench.binding, seen, expected, bench.case)
    return tuple(words), (*seen.damage, *outside, *([wrong.message] if wrong else []))


def _equal(one: Answer, other: Answer) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return isinstance(one, str) and isinstance(other, str) and one == other
    same = all(a == b and np.array_equal(x, y) for (a, x), (b, y) in zip(one[0], other[0], strict=True))
    return same and bool(one[1]) == bool(other[1])


@contextmanager
def _reached(files: dict[str | None, str], lines: set[tuple[str, int]]) -> Iterator[None]:
    """Collect the lines that run in these files, as module and line number."""

    def enter(frame: FrameType, event: str, _: object) -> Any:
        module = files.get(frame.f_code.co_filename)
        if module is None:
            return None
        return lambda frame, event, _: line(frame, module)

    def line(frame: FrameType, module: str) -> Any:
        lines.add((module, frame.f_lineno))
        return lambda frame, event, _: line(frame, module)

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        yield
    finally:
        sys.settrace(before)
