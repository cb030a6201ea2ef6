"""What a process that judges mutants keeps for each target, and the order in which they are judged."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from cumae.properties.faults.equality import SmallDomain
from cumae.properties.faults.mutants import Mutant, mutants_of
from cumae.properties.faults.oracle_suite import OracleSuite
from cumae.properties.faults.outcome import Outcome
from cumae.properties.faults.pool import Died, Pool
from cumae.properties.faults.suite import Suite
from cumae.properties.faults.ttir import Compiler, Launch, recording
from cumae.properties.running.device import Device
from cumae.properties.targets import load_function

HARD_LIMIT = 600.0
"""Seconds until a process that answers nothing, not even the alarm, is ended."""


@dataclass(frozen=True, slots=True)
class Target:
    """What is mutated. Of an oracle the operation and the dialect are empty."""

    name: str
    operation: str = ""
    dialect: str = "cumae"

    @property
    def is_oracle(self) -> bool:
        """Whether it is an oracle."""
        return not self.operation


@dataclass(frozen=True, slots=True)
class Task:
    """A mutant, and the targets that it is part of: any of them may kill it."""

    targets: tuple[Target, ...]
    mutant: Mutant


def tasks_of(targets: Sequence[Target]) -> list[Task]:
    """Return every mutant of the targets once, with all the targets that it is part of."""
    found: dict[Mutant, list[Target]] = {}
    for target in targets:
        for mutant in mutants_of(load_function(target.name)):
            found.setdefault(mutant, []).append(target)
    return [Task(tuple(those), mutant) for mutant, those in found.items()]


@dataclass(frozen=True, slots=True)
class How:
    """How mutants are judged: where, within which time, by which checks and how many cases of a search."""

    device: Device
    limit: float = 5.0
    examples: int = 25
    checks: tuple[str, ...] | None = None


class Judge:
    """The suites of the targets, made when they are asked for."""

    def __init__(self, how: How) -> None:
        self._how = how
        self._suites: dict[Target, Suite | OracleSuite] = {}
        self._domains: dict[Target, SmallDomain] = {}

    def prove(self, target: Target) -> str:
        """Return why a target cannot be mutated: it is wrong itself; empty where it is right."""
        try:
            self._suite(target).refuse_a_wrong_target()
        except ValueError as error:
            return str(error)
        return ""

    def record(self, target: Target) -> list[Launch]:
        """Return what a kernel's cases launch, in Triton's interpreter."""
        with recording() as launches:
            self._suite(target).refuse_a_wrong_target()
        return launches

    def kill(self, task: Task) -> Outcome | None:
        """Return how small cases of one of the targets kill a mutant."""
        found = (self._suite(target).kill(task.mutant) for target in task.targets)
        return next((outcome for outcome in found if outcome is not None), None)

    def look_closer(self, task: Task) -> Outcome:
        """Return how a search kills a mutant, or else how far it equals its original."""
        for target in task.targets:
            found = self._suite(target).kill_by_search(task.mutant)
            if found is not None:
                return found
        outcomes = [self._compared(target, task.mutant) for target in task.targets]
        return next((outcome for outcome in outcomes if outcome.status == "survived"), outcomes[0])

    def _compared(self, target: Target, mutant: Mutant) -> Outcome:
        suite = self._suite(target)
        if isinstance(suite, OracleSuite):
            return suite.compare(mutant)
        if target not in self._domains:
            self._domains[target] = SmallDomain(suite)
        return self._domains[target].compare(mutant)

    @property
    def is_lost(self) -> bool:
        """Whether the GPU is of no more use to this process."""
        return any(suite.is_lost for suite in self._suites.values() if isinstance(suite, Suite))

    def _suite(self, target: Target) -> Suite | OracleSuite:
        if target not in self._suites:
            how = self._how
            if target.is_oracle:
                self._suites[target] = OracleSuite(target.name, limit=how.limit)
            else:
                self._suites[target] = Suite(
                    target.name,
                    target.operation,
                    target.dialect,
                    how.device,
                    limit=how.limit,
                    examples=how.examples,
                    checks=how.checks,
                )
        return self._suites[target]


def judged(
    tasks: Sequence[Task], how: How, jobs: int, stage: Callable[[str, int], None]
) -> Iterator[tuple[int, Outcome]]:
    """Yield the number of each mutant and what became of it.

    ``stage`` gets the name and the size of each stage: first cases, then the compiler, then a search and
    the small domain. Raises ``ValueError`` for a target that is wrong before it is mutated.
    """
    targets = list(dict.fromkeys(target for task in tasks for target in task.targets))
    interpret = how.device == "cpu"
    pool = Pool(partial(Judge, how), jobs, HARD_LIMIT, interpret=interpret)
    try:
        stage("the targets themselves", len(targets))
        for i, refused in pool.each("prove", targets):
            if isinstance(refused, Died) or refused:
                raise ValueError(refused or f"target = {targets[i].name!r}, must be right: it died")
        stage("small cases", len(tasks))
        left = []
        for i, outcome in pool.each("kill", tasks):
            outcome = _of_dead(outcome)
            if outcome is None:
                left.append(i)
            else:
                yield i, outcome
        equal = list(_same_code(tasks, [i for i in left if tasks[i].mutant.in_kernel], how, jobs, stage))
        yield from equal
        left = [i for i in left if i not in dict(equal)]
        stage("other checks, search, small domain", len(left))
        for number, outcome in pool.each("look_closer", [tasks[i] for i in left]):
            found = _of_dead(outcome)
            assert found is not None
            yield left[number], found
    finally:
        pool.close()


def _of_dead(answer: Outcome | Died | None) -> Outcome | None:
    return Outcome("killed", "crash", 0, answer.reason) if isinstance(answer, Died) else answer


def _same_code(
    tasks: Sequence[Task], left: list[int], how: How, jobs: int, stage: Callable[[str, int], None]
) -> Iterator[tuple[int, Outcome]]:
    """Yield those of the mutants that compile to what their original compiles to."""
    targets = list(dict.fromkeys(target for i in left for target in tasks[i].targets))
    if not targets:
        return
    stage("compiler", len(left))
    recorder = Pool(partial(Judge, replace(how, device="cpu")), jobs, HARD_LIMIT, interpret=True)
    try:
        launches = {targets[i]: found for i, found in recorder.each("record", targets)}
    finally:
        recorder.close()
    known = {target: found for target, found in launches.items() if not isinstance(found, Died)}
    asked = [i for i in left if set(tasks[i].targets) <= set(known)]
    work = [([launch for t in tasks[i].targets for launch in known[t]], tasks[i].mutant) for i in asked]
    pool = Pool(Compiler, jobs, HARD_LIMIT, interpret=False)
    try:
        for number, count in pool.each("num_equal", work):
            if count and not isinstance(count, Died):
                said = f"same TTIR for {count} sets of types and constants, as launched"
                yield asked[number], Outcome("equivalent", said, count)
    finally:
        pool.close()
