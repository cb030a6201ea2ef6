"""First calls on several drawn cases, made together before the cases are examined."""

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from cumae.oracle import Case
from cumae.properties.checks import Trial
from cumae.properties.running.bench import COMPLEMENT, POISON, Bench
from cumae.properties.running.observation import KernelRaised
from cumae.properties.running.together import observe_together
from cumae.properties.search.due import EVERY
from cumae.properties.search.findings import device_lost

MOST_FORESEEN = 2**14
"""Tokens of a case that is called together with others."""


class Foreseen(NamedTuple):
    """The trial of a case whose first calls were made, the seconds they took, and the cases called then."""

    trial: Trial
    seconds: float
    others: Sequence[Case]


class Planned(NamedTuple):
    """A call that a check makes: its bench and its poison."""

    check: str
    bench: Bench
    poison: int


class FirstCalls(NamedTuple):
    """The trials whose first calls were made, and the case whose call lost the device, if one did."""

    trials: list[Trial]
    lost_by: Case | None


def make_first_calls(
    trials: Sequence[Trial], checks: Collection[str], before: Callable[[str, Case], None] | None
) -> FirstCalls:
    """Make the calls of several trials that some of ``checks`` need on every case.

    Their benches then answer with what was observed. ``before`` gets each check and its case.
    """
    always = [check for check in checks if check not in EVERY]
    calls = [(trial, call) for trial in trials for call in _planned(trial, always)]

    def begins(number: int) -> None:
        trial, call = calls[number]
        if before is not None:
            before(call.check, trial.case)
        call.bench.begin()

    found = observe_together([(call.bench, call.poison) for _, call in calls], begins)
    made: dict[int, Trial] = {}
    for number, seen in found.items():
        trial, call = calls[number]
        call.bench.foreseen[call.poison] = seen
        made[id(trial)] = trial
    last = max(found, default=0)
    is_lost = isinstance(found.get(last), KernelRaised) and device_lost(calls[last][0].device)
    return FirstCalls(list(made.values()), calls[last][0].case if is_lost else None)


def _planned(trial: Trial, checks: Collection[str]) -> list[Planned]:
    """Return the calls that these checks make on every case."""
    calls, binding = [Planned("agrees", trial.quiet, POISON)], trial.binding
    in_place = any(binding.forms[name].is_in_place for name in binding.outputs)
    if "writes_everything" in checks and (in_place or binding.returned):
        calls.append(Planned("writes_everything", trial.quiet, COMPLEMENT))
    elif "is_deterministic" in checks:
        calls.append(Planned("is_deterministic", trial.quiet, COMPLEMENT))
    others: list[tuple[str, Bench]] = []
    if "ignores_garbage" in checks:
        others.append(("ignores_garbage", trial.with_garbage(trial.garbage)))
    if "accepts_strides" in checks:
        others.append(("accepts_strides", trial.strided()))
    if "accepts_index_types" in checks:
        others += [("accepts_index_types", trial.with_indices(dtype)) for dtype in trial.index_dtypes]
    for check, bench in others:
        trial.expect(bench)
        calls.append(Planned(check, bench, POISON))
    return calls
