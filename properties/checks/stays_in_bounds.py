"""Guard words around outputs and inputs are intact, inputs unchanged, every access inside its tensor."""

from cumae.properties.checks.trial import Trial
from cumae.properties.verdict import Finding


def stays_in_bounds(trial: Trial) -> Finding | None:
    """Look at memory around and between the elements, and in the interpreter at every address."""
    seen = trial.first
    rule = "a kernel writes its outputs only, and reads and writes inside its tensors only"
    if seen.watch is not None and seen.watch.outside:
        return Finding("stays_in_bounds", str(seen.watch.outside[0]), rule, count=len(seen.watch.outside))
    if seen.damage:
        return Finding("stays_in_bounds", seen.damage[0], rule, count=len(seen.damage))
    return None
