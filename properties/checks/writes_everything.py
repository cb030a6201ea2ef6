"""The set of elements written is right: all the values, none of the untouched."""

from cumae.properties.comparing.compare import wrong_extent
from cumae.properties.results.verdict import Finding
from cumae.properties.running.trial import Trial


def writes_everything(trial: Trial) -> Finding | None:
    """Compare what was written: an element that holds each of two complementary poisons never was."""
    first, second = trial.first, trial.second
    expected, case = trial.expected, trial.quiet.case
    return wrong_extent("writes_everything", trial.binding, first, second, expected, case)
