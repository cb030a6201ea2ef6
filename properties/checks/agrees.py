"""Every written element equals the oracle's value."""

from cumae.properties.comparing.compare import wrong_values
from cumae.properties.comparing.second_look import with_cause
from cumae.properties.interpreter.watch import Watch
from cumae.properties.results.verdict import Finding
from cumae.properties.running.trial import Trial


def agrees(trial: Trial) -> Finding | None:
    """Compare the written elements with the oracle's values; report what the kernel's own run shows first."""
    watch = trial.first.watch
    if watch is not None and (found := _asserted(watch) or _hasty(watch)):
        return found
    if watch is not None and watch.early.hasty:
        where = watch.early.hasty["load"]
        trial.note = f"it loads at {where} before gdc_wait: right if no kernel before writes that"
    found = wrong_values("agrees", trial.binding, trial.first, trial.expected, trial.quiet.case)
    return found and with_cause(trial, found)


def _asserted(watch: Watch) -> Finding | None:
    """Return the first assertion of the kernel that fails."""
    if not watch.asserted:
        return None
    message = f"an assertion of the kernel fails: {watch.asserted[0]}"
    return Finding(
        "agrees", message, "a kernel's assertions hold on every valid case", count=len(watch.asserted)
    )


def _hasty(watch: Watch) -> Finding | None:
    """Return a change of memory in a launch that begins early, before it waits for the kernel before."""
    lines = [line for kind, line in watch.early.hasty.items() if kind != "load"]
    if not lines:
        return None
    message = f"launched with launch_pdl, the kernel changes memory before gdc_wait, at {lines[0]}"
    rule = "the kernel before may still read or write that: a kernel that begins early waits first"
    return Finding("agrees", message, rule, count=len(lines))
