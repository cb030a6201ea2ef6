"""Non-contiguous views give the same answer."""

from cumae.properties.comparing.repeated import changed_since
from cumae.properties.dialects import TENSORS
from cumae.properties.results.verdict import Finding
from cumae.properties.running.bench import POISON
from cumae.properties.running.trial import Trial


def accepts_strides(trial: Trial) -> Finding | None:
    """Call with gaps between the rows and columns of tables and rows."""
    base = trial.first
    strided = trial.strided()
    views = []
    for name in trial.binding.inputs:
        dense, view = trial.quiet.held(name), strided.held(name)
        if isinstance(dense, TENSORS) and isinstance(view, TENSORS) and dense.strides != view.strides:
            views.append(f"`{name}` has strides {view.strides}")
    because = f"when tables and rows are strided views: {', '.join(views)}" if views else "with gaps in rows"
    return changed_since("accepts_strides", trial, base, strided.observe(POISON), because)
