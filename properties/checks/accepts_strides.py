"""Non-contiguous views give the same answer."""

from cumae.properties.checks.repeated import changed_since
from cumae.properties.checks.trial import Trial
from cumae.properties.verdict import Finding


def accepts_strides(trial: Trial) -> Finding | None:
    """Call with gaps between rows and columns of tables and rows."""
    base = trial.first
    because = "when tables and rows were strided views"
    return changed_since("accepts_strides", trial, base, trial.strided(), because)
