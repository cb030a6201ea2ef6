"""Guard words around outputs and inputs are intact, inputs unchanged, every access inside its tensor."""

from cumae.properties.checks.trial import Trial
from cumae.properties.operations import KEEP
from cumae.properties.running.watch import Garbage
from cumae.properties.verdict import Finding


def stays_in_bounds(trial: Trial) -> Finding | None:
    """Look at memory around and between the elements, and in the interpreter at every address."""
    seen = trial.first
    rule = "a kernel writes its outputs only, and reads and writes inside its tensors only"
    if seen.watch is not None and seen.watch.outside:
        return Finding("stays_in_bounds", str(seen.watch.outside[0]), rule, count=len(seen.watch.outside))
    if seen.damage:
        return Finding("stays_in_bounds", seen.damage[0], rule, count=len(seen.damage))
    garbage = _garbage(trial)
    if garbage:
        rule = "a kernel reads its inputs, and of other memory only what was written before"
        return Finding("stays_in_bounds", str(garbage[0]), rule, count=len(garbage))
    return None


def _garbage(trial: Trial) -> list[Garbage]:
    """Return the elements read before they were written.

    A value that looks like the poison looks so over one of two poisons only. An element that must keep
    what it held was written by somebody before the call.
    """
    first = trial.first.watch
    if first is None or not first.garbage:
        return []
    second = trial.second.watch
    assert second is not None
    kept = {
        (name, index)
        for name, index in first.garbage
        if name in trial.expected
        and index < len(trial.expected[name].state)
        and trial.expected[name].state[index] == KEEP
    }
    return [first.garbage[key] for key in first.garbage if key in second.garbage and key not in kept]
