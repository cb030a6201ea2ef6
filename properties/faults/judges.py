"""Processes that judge mutants, and the order in which mutants are judged."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from cumae.properties.faults.equality import SmallDomain
from cumae.properties.faults.mutants import Mutant, mutants_of
from cumae.properties.faults.oracle_suite import OracleSuite
from cumae.properties.faults.outcome import Outcome
from cumae.properties.faults.suite import Suite
from cumae.properties.faults.ttir import Launch, recording
from cumae.properties.operations.targets import load_function
from cumae.properties.running.device import Device, interpreting
from cumae.properties.running.run_probe import fault_of
from cumae.properties.search.child import Tell
from cumae.properties.search.process import Answer, Call
from cumae.properties.search.processes import Processes, asked

Stage = Callable[[str, int, int], None]
"""Called with the name of a stage, its size, and how much of it is done."""
HARD_LIMIT = 600.0
"""Seconds after which a process that does not even react to the alarm is ended."""


@dataclass(frozen=True, slots=True)
class Target:
    """A function to mutate. An oracle has an empty operation."""

    name: str
    operation: str = ""
    dialect: str = "cumae"

    @property
    def is_oracle(self) -> bool:
        """Return whether the target is an oracle."""
        return not self.operation


@dataclass(frozen=True, slots=True)
class Task:
    """A mutant, and the targets that use it: the suite of any of them may kill it."""

    targets: tuple[Target, ...]
    mutant: Mutant


def tasks_of(targets: Sequence[Target]) -> list[Task]:
    """Return every mutant of the targets once, with all targets that use it."""
    found: dict[Mutant, list[Target]] = {}
    for target in targets:
        for mutant in mutants_of(load_function(target.name)):
            found.setdefault(mutant, []).append(target)
    return [Task(tuple(those), mutant) for mutant, those in found.items()]


@dataclass(frozen=True, slots=True)
class How:
    """Settings for judging: device, time limit, checks, and number of cases of a search."""

    device: Device
    limit: float = 5.0
    examples: int = 25
    checks: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Proof:
    """Why a target cannot be mutated, empty if it is right, and its launches in the interpreter."""

    refused: str
    launches: tuple[Launch, ...] = ()


class Judge:
    """The suites of the targets, made on first use."""

    def __init__(self, tell: Tell, how: How) -> None:
        self._how = how
        self._suites: dict[Target, Suite | OracleSuite] = {}
        self._domains: dict[Target, SmallDomain] = {}

    def prove(self, target: Target) -> Proof:
        """Run an unmutated target through everything that mutants go through; it must pass."""
        launches: list[Launch] = []
        with ExitStack() as stack:
            if interpreting() and not target.is_oracle:
                launches = stack.enter_context(recording())
            try:
                self._suite(target).refuse_a_wrong_target()
            except ValueError as error:
                return Proof(str(error))
        return Proof("", tuple(launches))

    def kill(self, task: Task) -> Outcome | None:
        """Return the outcome of small cases of the mutant's targets, None if it survives them."""
        found = (self._suite(target).kill(task.mutant) for target in task.targets)
        return next((outcome for outcome in found if outcome is not None), None)

    def look_closer(self, task: Task) -> Outcome:
        """Return the outcome of a search, or else of the comparison with the original."""
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
        """Return whether this process can no longer be used."""
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


def judged(tasks: Sequence[Task], how: How, jobs: int, stage: Stage) -> Iterator[tuple[int, Outcome]]:
    """Yield the number and the outcome of each mutant.

    The stages are small cases, then the compiler, then a search and the small domain.

    Raises ``ValueError`` for a target that is wrong before it is mutated.
    """
    targets = list(dict.fromkeys(target for task in tasks for target in task.targets))
    with ExitStack() as stack:
        judges = stack.enter_context(_judges(how, jobs))
        stage("the targets themselves", len(targets), 0)
        proofs = _proved(judges, targets)
        no_interpreter = "" if how.device == "cpu" else fault_of("interpreter")
        if how.device != "cpu" and not no_interpreter:
            with _judges(replace(how, device="cpu"), 1) as recorders:
                proofs = _proved(recorders, targets)
        stage("small cases", len(tasks), 0)
        left = []
        for i, answer in _each(judges, "kill", tasks):
            outcome = _outcome_of(answer)
            if outcome is None:
                left.append(i)
            else:
                yield i, outcome
        in_kernels = [i for i in left if tasks[i].mutant.in_kernel]
        if no_interpreter:
            stage(f"compiler skipped, because launches cannot be recorded: {no_interpreter}", 0, 0)
            in_kernels = []
        for i, outcome in _same_code(tasks, in_kernels, proofs, jobs, stage):
            left.remove(i)
            yield i, outcome
        stage("other checks, search, small domain", len(left), 0)
        for number, answer in _each(judges, "look_closer", [tasks[i] for i in left]):
            outcome = _outcome_of(answer)
            assert outcome is not None
            yield left[number], outcome


def _judges(how: How, jobs: int) -> Processes:
    environment = {"TRITON_INTERPRET": "1" if how.device == "cpu" else "0", "OMP_NUM_THREADS": "1"}
    return Processes(f"{__name__}:Judge", how, jobs=jobs, environment=environment)


def _each(workers: Processes, method: str, arguments: Sequence[object]) -> Iterator[tuple[int, Answer]]:
    """Yield the number of each argument, and the answer of the method to it."""
    return workers.each([asked(Call(method, argument, patience=HARD_LIMIT)) for argument in arguments])


def _proved(judges: Processes, targets: Sequence[Target]) -> dict[Target, Proof]:
    """Return the proofs of the targets. Raises ``ValueError`` if a target is wrong."""
    proofs = {}
    for i, answer in _each(judges, "prove", targets):
        proof: Proof = answer.result
        if answer.death:
            proof = Proof(f"target = {targets[i].name!r}, must be right before it is mutated: {answer.death}")
        if proof.refused:
            raise ValueError(proof.refused)
        proofs[targets[i]] = proof
    return proofs


def _outcome_of(answer: Answer) -> Outcome | None:
    outcome: Outcome | None = answer.result
    return Outcome("killed", "crash", 0, answer.death) if answer.death else outcome


def _same_code(
    tasks: Sequence[Task],
    left: list[int],
    proofs: Mapping[Target, Proof],
    jobs: int,
    stage: Stage,
) -> Iterator[tuple[int, Outcome]]:
    """Yield the mutants that compile to the same code as their original."""
    if not left:
        return
    stage("compiler", len(left), 0)
    work = []
    for i in left:
        launches = [launch for target in tasks[i].targets for launch in proofs[target].launches]
        work.append((launches, tasks[i].mutant))
    environment = {"TRITON_INTERPRET": "0", "OMP_NUM_THREADS": "1"}
    compiler = "cumae.properties.faults.ttir:Compiler"
    with Processes(compiler, jobs=jobs, environment=environment) as compilers:
        for done, (number, answer) in enumerate(_each(compilers, "num_equal", work), 1):
            if answer.result:
                said = f"same TTIR for {answer.result} sets of types and constants, as launched"
                yield left[number], Outcome("equivalent", said, answer.result)
            stage("compiler", len(left), done)
