"""Verdicts on tensors dumped from an engine."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from cumae.oracle import Case, Inputs
from cumae.properties.comparing.compare import wrong_values
from cumae.properties.dialects import DIALECTS, Dialect, Output
from cumae.properties.dialects.dump import Dump, case_of, read_dump
from cumae.properties.dialects.tensor_values import read_ints
from cumae.properties.operations import OPERATIONS, VALUE, Operation
from cumae.properties.operations.binding import Binding, bind
from cumae.properties.operations.expected import expected_of
from cumae.properties.operations.outputs import outputs_of
from cumae.properties.results.verdict import Failure, Verdict
from cumae.properties.running.bench import POISON
from cumae.properties.running.observation import Observation


def judge_dump(file: Path, dialect: str, operation: str | None = None) -> list[Verdict]:
    """Return a verdict on each operation with outputs in a dump, or on the named one.

    Integers are compared exactly; elements without a specified value are skipped. Raises
    ``ValueError`` if the tensors are no step, or none of them is an output.
    """
    dump = read_dump(file)
    case, known = case_of(dump, dialect), _outputs(dialect)
    case = _with_slots(case, dump, known)
    verdicts = []
    for name, outputs in known.items():
        given = {o.name: dump[o.name] for o in outputs if o.name in dump and o.is_captured}
        if given and operation in (None, name):
            verdicts.append(_judged(file, case, OPERATIONS[name], DIALECTS[dialect], given))
    if not verdicts:
        judged = ", ".join(sorted(_judged_names(dialect)))
        what = f"hold an output of {operation or 'an operation'} that a dump determines ({judged})"
        raise ValueError(f"{file}: tensors = {', '.join(dump)}, must {what}; otherwise give a target")
    return verdicts


def not_judged(file: Path, dialect: str) -> list[str]:
    """Return the outputs in a dump that its other tensors do not determine."""
    dump = read_dump(file)
    names = {output.name for outputs in _outputs(dialect).values() for output in outputs}
    return sorted((names & dump.keys()) - _judged_names(dialect))


def _outputs(dialect: str) -> dict[str, list[Output]]:
    """Return the outputs of a dialect by operation, in the table's order."""
    found = DIALECTS[dialect]
    return {
        name: list(outputs_of(operation, found).values())
        for name, operation in OPERATIONS.items()
        if name in found.outputs
    }


def _judged_names(dialect: str) -> set[str]:
    outputs = (output for known in _outputs(dialect).values() for output in known)
    return {output.name for output in outputs if output.is_captured}


def _with_slots(case: Case, dump: Dump, outputs: Mapping[str, Sequence[Output]]) -> Case:
    """Return the case with a slot buffer as long as the dumped one."""
    longer = {o.name for known in outputs.values() for o in known if "num_padding_slots" in o.carries}
    lens = [len(read_ints(name, dump[name])) for name in longer & dump.keys()]
    extra = max((length - case.num_tokens_padded for length in lens), default=0)
    return replace(case, layout=replace(case.layout, num_padding_slots=max(extra, 0)))


def _judged(file: Path, case: Case, operation: Operation, dialect: Dialect, dump: Dump) -> Verdict:
    binding = _binding(operation, dialect, tuple(dump))
    words = {name: np.array(read_ints(name, dump[name]), dtype=np.int64) for name in dump}
    inputs, outputs = Inputs(case), [binding.forms[name] for name in dump]
    expected = expected_of(operation, outputs, inputs, lambda name: dialect.inputs[name].hold(inputs))
    seen = Observation(words, {}, (), None, POISON, frozenset(dump))
    verdict = Verdict(str(file), operation.name, dialect.name, ("agrees",), cases=1)
    verdict.comparisons = sum(int((e.state == VALUE).sum()) for e in expected.values())
    finding = wrong_values("agrees", binding, seen, expected, case)
    if finding is not None:
        verdict.failure = Failure(finding, case, found_after=0)
    return verdict


def _binding(operation: Operation, dialect: Dialect, outputs: tuple[str, ...]) -> Binding:
    def dumped() -> None:
        """Stand for the engine that wrote the dump."""

    return replace(bind(dumped, operation, dialect), outputs=outputs, returned=())
