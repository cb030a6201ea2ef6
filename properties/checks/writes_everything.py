"""The kernel writes every value, and none of the elements that must stay untouched."""

from cumae.properties.comparing.compare import wrong_extent
from cumae.properties.results.verdict import Finding
from cumae.properties.running.trial import Trial


def writes_everything(trial: Trial) -> Finding | None:
    """Compare the sets of written elements; one that holds both complementary poisons was never written."""
    first, second = trial.first, trial.second
    expected, case = trial.expected, trial.quiet.case
    return wrong_extent("writes_everything", trial.binding, first, second, expected, case)
