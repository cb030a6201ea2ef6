"""Guard words around outputs and inputs are intact, inputs unchanged, every access inside its tensor."""

from cumae.properties.comparing.evidence import read_output
from cumae.properties.interpreter.strays import Garbage, Unaligned
from cumae.properties.operations import KEEP
from cumae.properties.results.verdict import Finding
from cumae.properties.running.trial import Trial


def stays_in_bounds(trial: Trial) -> Finding | None:
    """Check the memory around and between the elements, and in the interpreter every address."""
    seen = trial.first
    rule = "a kernel writes only its outputs, and reads and writes only inside its tensors"
    outside = seen.watch.outside if seen.watch is not None else []
    if outside and isinstance(outside[0], Unaligned):
        rule = "what a thread accesses at once lies at a multiple of its size"
    told = [str(access) for access in outside]
    told = told or list(seen.damage)
    if not told and (told := [str(one) for one in _garbage(trial)]):
        rule = "a kernel reads only its inputs and memory that was written before"
    if not told:
        return None
    cause = read_output(trial.binding, seen, trial.expected)
    return Finding("stays_in_bounds", told[0], rule, count=len(told), cause=cause)


def _garbage(trial: Trial) -> list[Garbage]:
    """Return the elements read before they were written.

    A real value can equal at most one of the two poisons. An element that must keep its content was written
    before the call.
    """
    first = trial.first.watch
    if first is None or not first.garbage:
        return []
    second = trial.complement.watch
    assert second is not None
    kept = {
        (name, index)
        for name, index in first.garbage
        if name in trial.expected
        and index < len(trial.expected[name].state)
        and trial.expected[name].state[index] == KEEP
    }
    return [first.garbage[key] for key in first.garbage if key in second.garbage and key not in kept]
