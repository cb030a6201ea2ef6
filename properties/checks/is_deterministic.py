"""Two launches give the same bits; in the interpreter also in another program order, and without races."""

from dataclasses import replace

from cumae.properties.comparing.repeated import changed_since
from cumae.properties.interpreter.races import Race
from cumae.properties.operations import FREE
from cumae.properties.results.verdict import Finding
from cumae.properties.running.observation import Observation
from cumae.properties.running.trial import Trial

ORDER_SEED = 1


def is_deterministic(trial: Trial) -> Finding | None:
    """Call a second time, then in the interpreter with the programs of each launch in another order."""
    base = trial.first
    again = trial.again()
    races = _races(trial, again)
    if races:
        rule = "a kernel's output does not depend on the order of its programs"
        return Finding("is_deterministic", str(races[0]), rule, count=len(races))
    found = changed_since("is_deterministic", trial, base, again, "in a second launch")
    if found is not None or base.watch is None or base.watch.most_programs < 2 or trial.is_over():
        return found
    other = trial.again(ORDER_SEED)
    because = "when programs ran in another order"
    found = changed_since("is_deterministic", trial, base, other, because)
    if found is None or found.index < 0 or other.watch is None:
        return found
    writer = other.watch.writer_of(found.output, found.index)
    return replace(found, message=f"{found.message}; {writer}") if writer else found


def _races(trial: Trial, seen: Observation) -> list[Race]:
    """Return the races seen, except those at don't-care elements."""
    races = seen.watch.races if seen.watch is not None else []
    return [
        race
        for race in races
        if race.tensor not in trial.expected
        or race.index >= len(trial.expected[race.tensor].state)
        or trial.expected[race.tensor].state[race.index] != FREE
    ]
