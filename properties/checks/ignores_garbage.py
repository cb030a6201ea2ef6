"""The content of tails, padded rows and unused rows does not change results."""

from cumae.properties.comparing.repeated import changed_since
from cumae.properties.results.verdict import Finding
from cumae.properties.running.bench import POISON
from cumae.properties.running.trial import GARBAGE_HELD, Trial


def ignores_garbage(trial: Trial) -> Finding | None:
    """Call with the case's kind of garbage, or with another one if it is the quiet kind."""
    base, kind = trial.first, trial.garbage
    other = trial.with_garbage(kind).observe(POISON)
    because = f"when unused entries held {GARBAGE_HELD[kind]}"
    return changed_since("ignores_garbage", trial, base, other, because)
