"""Metamorphic relations hold between a kernel's own answers."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from cumae.oracle import Case, Inputs
from cumae.properties.cases.domain import Domain
from cumae.properties.comparing.parts import Part, parts_of
from cumae.properties.comparing.relation import Fact, broken_at
from cumae.properties.comparing.relations import FACTS
from cumae.properties.operations import KEEP, Expected
from cumae.properties.operations.axes import axis_named
from cumae.properties.operations.binding import Binding
from cumae.properties.operations.items import elements_each
from cumae.properties.results.verdict import Finding
from cumae.properties.running.bench import Bench
from cumae.properties.running.observation import Observation
from cumae.properties.running.trial import Trial
from cumae.properties.running.variants import quiet_case


def keeps_facts(trial: Trial) -> Finding | None:
    """Call on related cases inside the domain and compare the answers with each other.

    After the calls, the oracle decides which relations hold for the operation.
    """
    base, seen = trial.quiet.case, trial.first
    calls: Iterable[tuple[Fact, list[Bench]]] = _calls(trial)
    if trial.calls_together:
        calls = list(calls)
        trial.call_together([bench for _, benches in calls for bench in benches])
    for fact, benches in calls:
        if trial.is_over():
            return None
        answers = [bench.observe() for bench in benches]
        if any(answer.is_misshapen for answer in (seen, *answers)):
            continue  # `agrees` reports it
        parts = list(_parts(trial.binding, base, seen, trial.expected))
        others = [
            list(_parts(trial.binding, bench.case, answer, bench.expected()))
            for bench, answer in zip(benches, answers, strict=True)
        ]
        told = _broken(fact, base, parts, others)
        if told is not None:
            return Finding("keeps_facts", told, fact.rule)
    return None


def _calls(trial: Trial) -> Iterator[tuple[Fact, list[Bench]]]:
    """Yield the facts that relate cases inside the domain to the case, each with their benches."""
    base = trial.quiet.case
    for fact in FACTS.values():
        cases = [quiet_case(case, base.layout.garbage) for case in fact.relate(base)]
        if cases and not any(trial.binding.domain.why_not(case) for case in cases):
            yield fact, [trial.bench(case, "on a related case") for case in cases]


def related_cases(case: Case, domain: Domain) -> list[Case]:
    """Return the cases inside a domain that a fact relates to a case."""
    cases = [other for fact in FACTS.values() for other in fact.relate(case)]
    return [other for other in cases if domain.why_not(other) is None]


def _broken(fact: Fact, case: Case, parts: Sequence[Part], others: Sequence[Sequence[Part]]) -> str | None:
    """Return a description of the first part that breaks a fact, None if all parts keep it."""
    for part in parts:
        same = [next((o for o in those if o.what == part.what), None) for those in others]
        theirs = [other for other in same if other is not None]
        if len(theirs) < len(others) or any(other.per != part.per for other in theirs):
            continue
        for pairs in fact.pairs(case, part, theirs):
            b = broken_at(pairs, part, theirs[pairs.k])
            if b is not None:
                return fact.told.format(what=part.what, whose="" if b < 0 else f" of request {b}")
    return None


def _parts(binding: Binding, case: Case, seen: Observation, expected: dict[str, Expected]) -> Iterator[Part]:
    """Yield the parts of all outputs of a call, and the window lengths if the outputs give both bounds."""
    wholes = {name: _whole(binding, case, seen, name, expected[name]) for name in seen.outputs}
    names_on: dict[str, list[str]] = {}
    for name in wholes:
        names_on.setdefault(binding.forms[name].axis, []).append(name)
    for name, whole in wholes.items():
        if whole is None:
            continue
        axis, per = axis_named(binding.forms[name].axis), elements_each(binding.forms[name], case)
        yield from parts_of(whole, axis, per, case)
        place = names_on[binding.forms[name].axis].index(name)
        stop_name, stop = _stop_of(whole, place, names_on.get(axis.ends_on, []), wholes)
        if stop is not None:
            lens = Part(
                f"the window length, `{stop_name}` - `{name}`,",
                stop.words - whole.words,
                stop.wanted - whole.wanted,
                stop.held & whole.held,
            )
            yield from parts_of(lens, axis, per, case)


def _stop_of(
    starts: Part, place: int, names: Sequence[str], wholes: Mapping[str, Part | None]
) -> tuple[str, Part | None]:
    """Return the output with the ends of these starts: the one at the same place, or another as long."""
    for name in (*names[place:], *names[:place]):
        stop = wholes[name]
        if stop is not None and stop.words.shape == starts.words.shape:
            return name, stop
    return "", None


def _whole(binding: Binding, case: Case, seen: Observation, name: str, expected: Expected) -> Part | None:
    """Return an output beside the oracle's values; None for a judged operation without ``rights``.

    If an operation has many right answers, only rows with one right answer are compared. Unordered entries
    are sorted in each row.
    """
    words, wanted, operation = seen.outputs[name], expected.words, binding.operation
    if words.shape != wanted.shape:
        return None  # `agrees` reports it
    held = expected.is_specified
    if name not in binding.returned:
        keeps = expected.state == KEEP
        wanted = np.where(keeps if wanted.ndim == 1 else keeps[:, None], seen.before[name], wanted)
        held |= keeps
    if operation.judge is not None:
        if operation.rights is None:
            return None
        rows = np.array(operation.rights(Inputs.of(case))) == 1
        per = len(words) // max(len(rows), 1)
        held &= np.repeat(rows, per)
        if binding.forms[name].unordered or axis_named(binding.forms[name].axis).is_sorted:
            words, wanted = (np.sort(a.reshape(len(rows), per), axis=1).ravel() for a in (words, wanted))
    return Part(f"`{name}`", words, wanted, held)
