"""Verdicts on tensors dumped from an engine."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from cumae.oracle import Case, Inputs
from cumae.properties.comparing.compare import wrong_values
from cumae.properties.dialects import DIALECTS, Dialect, Output
from cumae.properties.dialects.dump import case_of, names_read
from cumae.properties.dialects.dump_file import Dump, read_dump
from cumae.properties.dialects.tensor_values import read_ints
from cumae.properties.operations import OPERATIONS, VALUE, Operation
from cumae.properties.operations.binding import Binding, bind
from cumae.properties.operations.expected import expected_of
from cumae.properties.operations.outputs import outputs_of
from cumae.properties.results.counting import counted
from cumae.properties.results.failure_file import Saved
from cumae.properties.results.verdict import Failure, Verdict
from cumae.properties.running.bench import POISON
from cumae.properties.running.machine import versions
from cumae.properties.running.observation import Observation

NO_DEVICE = "tensors of a dump"


def judge_dump(file: Path, dialect: str, operation: str | None = None) -> list[Verdict]:
    """Return a verdict on each operation with outputs in a dump, or on the named one.

    Raises as ``judge_outputs`` does, and ``ValueError`` if none of the tensors is an output.
    """
    verdicts = judge_outputs(file, dialect, operation)[1]
    if not verdicts:
        judged = ", ".join(sorted(_judged_names(dialect)))
        what = f"hold an output of {operation or 'an operation'} that a dump determines ({judged})"
        raise ValueError(f"{file}: tensors = {', '.join(read_dump(file))}, must {what}; or give a target")
    return verdicts


def judge_outputs(file: Path, dialect: str, operation: str | None = None) -> tuple[Case, list[Verdict]]:
    """Return the case of a dump, and a verdict on each operation with outputs in it, or on the named one.

    Integers are compared exactly; elements without a specified value are skipped. If the dump does not say
    how many padded tokens the step has, elements behind the live ones are not judged. Raises
    ``Contradiction`` if the tensors contradict each other, and ``ValueError`` if they cannot be read.
    """
    dump = read_dump(file)
    case, known = case_of(dump, dialect), _outputs(dialect)
    case = _with_slots(case, dump, known)
    judged, verdicts = _judged_names(dialect), []
    for name, outputs in known.items():
        held = [o.name for o in outputs if o.is_captured and o.name in judged & dump.keys()]
        given = {output: read_ints(output, dump[output]) for output in held}
        if given and operation in (None, name):
            is_whole = not {"num_tokens_padded", "nnz"}.isdisjoint(dump)
            verdicts.append(
                _judged(str(file), case, OPERATIONS[name], DIALECTS[dialect], given, is_whole=is_whole)
            )
    return case, verdicts


def judge_saved(saved: Saved) -> Verdict:
    """Return the verdict on the outputs of a dump that was saved as a failure."""
    operation, dialect = OPERATIONS[saved.operation], DIALECTS[saved.dialect]
    known = outputs_of(operation, dialect)
    for name in saved.answer:
        if name not in known:
            rule = f"be an output of {operation.name} in {dialect.name}: {', '.join(known)}"
            raise ValueError(f"answer = {name!r}, must {rule}")
    return _judged(saved.target, saved.case, operation, dialect, saved.answer, is_whole=True)


def not_judged(file: Path, dialect: str) -> list[str]:
    """Return the outputs in a dump that its other tensors do not determine."""
    dump = read_dump(file)
    names = {output.name for outputs in _outputs(dialect).values() for output in outputs}
    return sorted((names & dump.keys()) - _judged_names(dialect) - names_read(dialect))


def _outputs(dialect: str) -> dict[str, list[Output]]:
    """Return the outputs of a dialect by operation, in the table's order."""
    found = DIALECTS[dialect]
    return {
        name: list(outputs_of(operation, found).values())
        for name, operation in OPERATIONS.items()
        if name in found.outputs
    }


def _judged_names(dialect: str) -> set[str]:
    """Return the outputs that a case made of tensors determines, and that it is not made of."""
    outputs = (output for known in _outputs(dialect).values() for output in known)
    return {output.name for output in outputs if output.is_captured} - names_read(dialect)


def _with_slots(case: Case, dump: Dump, outputs: Mapping[str, Sequence[Output]]) -> Case:
    """Return the case with a slot buffer as long as the dumped one."""
    longer = {o.name for known in outputs.values() for o in known if "num_padding_slots" in o.carries}
    lens = [len(read_ints(name, dump[name])) for name in longer & dump.keys()]
    extra = max((length - case.num_tokens_padded for length in lens), default=0)
    return case.laid_out(num_padding_slots=max(extra, 0))


def _judged(
    source: str,
    case: Case,
    operation: Operation,
    dialect: Dialect,
    answer: Mapping[str, list[int]],
    *,
    is_whole: bool,
) -> Verdict:
    """Return the verdict on outputs by name. ``is_whole``: no output may be longer than the case says."""
    binding = _binding(operation, dialect, tuple(answer))
    inputs, outputs = Inputs(case), [binding.forms[name] for name in answer]
    expected = expected_of(operation, outputs, inputs, lambda name: dialect.inputs[name].hold(inputs))
    verdict = Verdict(source, operation.name, dialect.name, ("agrees",), cases=1)
    for name, values in answer.items():
        judged = len(expected[name].words)
        if len(values) > judged and not is_whole:
            rest = counted(len(values) - judged, "element")
            verdict.notes += (f"{name}: {rest} at the end not judged; num_tokens_padded is missing",)
            values = values[:judged]
        verdict.answer[name] = values
    words = {name: np.array(values, dtype=np.int64) for name, values in verdict.answer.items()}
    seen = Observation(words, {}, (), None, POISON, frozenset(answer))
    verdict.comparisons = sum(int((e.state == VALUE).sum()) for e in expected.values())
    verdict.versions = versions(NO_DEVICE)
    finding = wrong_values("agrees", binding, seen, expected, case)
    if finding is not None:
        verdict.failure = Failure(finding, case, found_after=0)
    return verdict


def _binding(operation: Operation, dialect: Dialect, outputs: tuple[str, ...]) -> Binding:
    def dumped() -> None:
        """Stand for the engine that wrote the dump."""

    return replace(bind(dumped, operation, dialect), outputs=outputs, returned=())
