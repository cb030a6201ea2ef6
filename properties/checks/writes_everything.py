"""The set of elements written is right: all the values, none of the untouched."""

from cumae.properties.checks.compare import wrong_extent
from cumae.properties.checks.trial import Trial
from cumae.properties.verdict import Finding


def writes_everything(trial: Trial) -> Finding | None:
    """Compare what was written: an element that holds each of two complementary poisons never was."""
    first, second = trial.first, trial.second
    expected, case = trial.expected, trial.quiet.case
    return wrong_extent("writes_everything", trial.binding, first, second, expected, case)
