"""The content of tails, padded rows and unused rows does not change results."""

from cumae.oracle import GARBAGE_KINDS
from cumae.properties.comparing.repeated import changed_since
from cumae.properties.results.verdict import Finding
from cumae.properties.running.trial import Trial


def ignores_garbage(trial: Trial) -> Finding | None:
    """Call with the case's kind of garbage, or with another one if it is the quiet kind."""
    base = trial.first
    kinds = [kind for kind in GARBAGE_KINDS if kind != trial.binding.dialect.quiet_garbage]
    drawn = trial.case.layout.garbage
    kind = drawn if drawn in kinds else kinds[trial.case.num_tokens_padded % len(kinds)]
    other = trial.with_garbage(kind)
    because = f"when unused entries held {kind.replace('_', ' ')} garbage"
    return changed_since("ignores_garbage", trial, base, other, because)
