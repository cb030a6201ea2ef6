"""The kernel writes every value, and none of the elements that must stay untouched."""

from cumae.properties.comparing.compare import wrong_extent
from cumae.properties.comparing.masks import has_written_all
from cumae.properties.results.verdict import Finding
from cumae.properties.running.trial import Trial


def writes_everything(trial: Trial) -> Finding | None:
    """Compare the sets of written elements; one that holds both complementary poisons was never written.

    The first call tells alone if it left no specified element as it was and none must keep its content.
    """
    first, expected, case = trial.first, trial.expected, trial.quiet.case
    if not trial.binding.returned and has_written_all(first, expected):
        return None
    return wrong_extent("writes_everything", trial.binding, first, trial.second, expected, case)
