"""Views with gaps, in another order or at any address give the same answer."""

from dataclasses import replace

from cumae.oracle import Case, Inputs
from cumae.properties.comparing.judged import wrong_answer
from cumae.properties.comparing.repeated import changed_since
from cumae.properties.dialects import TENSORS
from cumae.properties.operations.binding import Binding
from cumae.properties.operations.strides import output_strides
from cumae.properties.results.verdict import Finding
from cumae.properties.running.bench import POISON, Bench
from cumae.properties.running.observation import Observation
from cumae.properties.running.trial import Trial


def accepts_strides(trial: Trial) -> Finding | None:
    """Call with the case's own strides; if it has none, with one stride that is not dense.

    The finding is about the case with these strides.
    """
    strided = trial.strided()
    found = difference_of(trial, strided)
    if found is not None:
        trial.shown = trial.as_strided(strided)
    return found


def difference_of(trial: Trial, strided: Bench) -> Finding | None:
    """Return how a call on other strides differs from the first."""
    base, other, because = trial.first, strided.observe(POISON), _because(trial, strided)
    if any(trial.binding.forms[name].is_fp32 for name in base.outputs):
        return _worse(trial, base, other, because)
    return changed_since("accepts_strides", trial, base, other, because)


def _worse(trial: Trial, base: Observation, other: Observation, because: str) -> Finding | None:
    """Return a fault that only the strided call has; a call on other strides may round otherwise."""
    if base.is_misshapen or other.is_misshapen:
        return None
    binding, case, expected = trial.binding, trial.quiet.case, trial.expected
    found = wrong_answer("accepts_strides", binding, other, expected, case)
    if found is None or wrong_answer("accepts_strides", binding, base, expected, case) is not None:
        return None
    return replace(found, message=f"{found.message}, {because}")


def _because(trial: Trial, strided: Bench) -> str:
    """Return how the tensors of a bench lie in memory, in words."""
    views = []
    for name in trial.binding.inputs:
        dense, view = trial.quiet.held(name), strided.held(name)
        if isinstance(dense, TENSORS) and isinstance(view, TENSORS) and dense.strides != view.strides:
            views.append(f"`{name}` has strides {view.strides}")
    for name in trial.binding.outputs:
        usual, given = (_strides_of(trial.binding, name, bench.case) for bench in (trial.quiet, strided))
        if given != usual:
            views.append(f"`{name}` has strides {given}")
    offset = strided.case.layout.storage_offset
    if offset:
        views.append(f"every tensor begins {offset} elements behind an aligned address")
    return f"when tensors are strided views{': ' if views else ''}{', '.join(views)}"


def _strides_of(binding: Binding, name: str, case: Case) -> tuple[int, ...]:
    """Return the strides of an output, of a cache those that its pages or rows have."""
    before = binding.forms[name].before
    held = before(Inputs(case)) if before is not None else None
    return held.strides if isinstance(held, TENSORS) else output_strides(binding, name, case)
