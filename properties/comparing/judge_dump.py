"""Which of the tensors dumped from an engine are wrong."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from cumae.oracle import Case, Inputs
from cumae.properties.comparing.compare import wrong_values
from cumae.properties.dialects import DIALECTS, Dialect
from cumae.properties.dialects.dump import Dump, case_of, read_dump
from cumae.properties.dialects.tensor_values import read_ints
from cumae.properties.operations import OPERATIONS, VALUE, Operation
from cumae.properties.operations.binding import Binding, bind
from cumae.properties.results.verdict import Failure, Verdict
from cumae.properties.running.bench import POISON
from cumae.properties.running.observation import Observation


def _with_slots(case: Case, dump: Dump, dialect: Dialect) -> Case:
    """Return the case with a slot buffer as long as the dumped one."""
    slots = [name for (_, name), output in dialect.outputs.items() if output.axis == "slot" and name in dump]
    extra = max((len(read_ints(name, dump[name])) - case.num_tokens_padded for name in slots), default=0)
    return replace(case, layout=replace(case.layout, num_padding_slots=max(extra, 0)))


def judge_dump(file: Path, dialect: str, operation: str | None = None) -> list[Verdict]:
    """Return a verdict on each operation of which a dump holds outputs, or on the one that is named.

    Integers are compared exactly, elements without a specified value not at all. Raises
    ``ValueError`` where the tensors are no step, and where none of them is an output.
    """
    dump = read_dump(file)
    case = _with_slots(case_of(dump, dialect), dump, DIALECTS[dialect])
    verdicts = []
    for name, known in OPERATIONS.items():
        outputs = DIALECTS[dialect].outputs_of(name)
        given = [output for output in outputs if output in dump and outputs[output].is_captured]
        if given and operation in (None, name):
            verdicts.append(_judged(file, case, known, DIALECTS[dialect], {n: dump[n] for n in given}))
    if not verdicts:
        judged = {name for (_, name), output in DIALECTS[dialect].outputs.items() if output.is_captured}
        known_here = ", ".join(sorted(judged))
        what = f"hold an output of {operation or 'an operation'} that a dump says all of ({known_here})"
        raise ValueError(f"{file}: tensors = {', '.join(dump)}, must {what}, or a target be given")
    return verdicts


def not_judged(file: Path, dialect: str) -> list[str]:
    """Return the outputs in a dump that follow from more than a dump says."""
    outputs, dump = DIALECTS[dialect].outputs, read_dump(file)
    judged = {name for (_, name), output in outputs.items() if output.is_captured}
    return sorted({name for _, name in outputs if name in dump} - judged)


def _judged(file: Path, case: Case, operation: Operation, dialect: Dialect, dump: Dump) -> Verdict:
    binding = _binding(operation, dialect, tuple(dump))
    words = {name: np.array(read_ints(name, dump[name]), dtype=np.int64) for name in dump}
    inputs = Inputs(case)
    expected = operation.expected(inputs, lambda name: dialect.inputs[name].hold(inputs), dialect, list(dump))
    seen = Observation(words, {}, (), None, POISON, frozenset(dump))
    verdict = Verdict(str(file), operation.name, dialect.name, ("agrees",), cases=1)
    verdict.comparisons = sum(int((e.state == VALUE).sum()) for e in expected.values())
    finding = wrong_values("agrees", binding, seen, expected, case)
    if finding is not None:
        verdict.failure = Failure(finding, case, found_after=0)
    return verdict


def _binding(operation: Operation, dialect: Dialect, outputs: tuple[str, ...]) -> Binding:
    def dumped() -> None:
        """Stands for the engine that wrote the dump."""

    return replace(bind(dumped, operation, dialect), outputs=outputs, returned=())
