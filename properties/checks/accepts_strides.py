"""Views with gaps, in another order or at any address give the same answer."""

from cumae.properties.comparing.repeated import changed_since
from cumae.properties.dialects import TENSORS
from cumae.properties.operations.strides import output_strides
from cumae.properties.results.verdict import Finding
from cumae.properties.running.bench import POISON, Bench
from cumae.properties.running.trial import Trial


def accepts_strides(trial: Trial) -> Finding | None:
    """Call with the case's own strides; if it has none, with one stride that is not dense.

    The finding is about the case with these strides.
    """
    base, strided = trial.first, trial.strided()
    found = changed_since("accepts_strides", trial, base, strided.observe(POISON), _because(trial, strided))
    if found is not None:
        trial.shown = trial.as_strided(strided)
    return found


def _because(trial: Trial, strided: Bench) -> str:
    """Return how the tensors of a bench lie in memory, in words."""
    views = []
    for name in trial.binding.inputs:
        dense, view = trial.quiet.held(name), strided.held(name)
        if isinstance(dense, TENSORS) and isinstance(view, TENSORS) and dense.strides != view.strides:
            views.append(f"`{name}` has strides {view.strides}")
    for name in trial.binding.outputs:
        given = output_strides(trial.binding, name, strided.case)
        if given != output_strides(trial.binding, name, trial.quiet.case):
            views.append(f"`{name}` has strides {given}")
    offset = strided.case.layout.storage_offset
    if offset:
        views.append(f"every tensor begins {offset} elements behind an aligned address")
    return f"when tensors are strided views: {', '.join(views)}" if views else "with gaps in rows"
