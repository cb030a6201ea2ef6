"""Every written element equals the oracle's value."""

from cumae.properties.comparing.compare import wrong_values
from cumae.properties.comparing.second_look import with_cause
from cumae.properties.results.verdict import Finding
from cumae.properties.running.trial import Trial


def agrees(trial: Trial) -> Finding | None:
    """Compare the written elements with the oracle's values, and report a failed assertion of the kernel."""
    seen = trial.first
    if seen.watch is not None and seen.watch.asserted:
        asserted = seen.watch.asserted
        message = f"an assertion of the kernel fails: {asserted[0]}"
        return Finding(
            "agrees", message, "a kernel's assertions hold on every valid case", count=len(asserted)
        )
    found = wrong_values("agrees", trial.binding, seen, trial.expected, trial.quiet.case)
    return found and with_cause(trial, found)
