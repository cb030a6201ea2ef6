"""Non-contiguous views give the same answer."""

from cumae.properties.checks.compare import changed
from cumae.properties.checks.trial import Trial
from cumae.properties.verdict import Finding


def accepts_strides(trial: Trial) -> Finding | None:
    """Call with gaps between rows and columns of tables and rows."""
    base = trial.first
    live = {name: trial.live(name) for name in base.outputs}
    because = "when tables and rows were strided views"
    return changed("accepts_strides", trial.binding, base, trial.strided(), live, because)
