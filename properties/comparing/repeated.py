"""Comparison of another call on the case of a trial with the first."""

from cumae.properties.comparing.compare import changed
from cumae.properties.comparing.judged import wrong_besides
from cumae.properties.results.verdict import Finding
from cumae.properties.running.observation import Observation
from cumae.properties.running.trial import Trial


def changed_since(
    check: str, trial: Trial, base: Observation, other: Observation, because: str
) -> Finding | None:
    """Return the first element in which another call differs, or a fault that only its answer has."""
    live = {name: trial.live(name) for name in base.outputs}
    found = changed(check, trial.binding, base, other, live, because)
    case = trial.quiet.case
    return found or wrong_besides(check, trial.binding, base, other, trial.expected, case, because)
