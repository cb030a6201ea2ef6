"""GPU: no device-to-host synchronisation; in-place kernels do not allocate."""

import torch

from cumae.properties.checks.trial import Trial
from cumae.properties.running.observe import POISON, Call
from cumae.properties.verdict import Finding

_ALLOCATED = "allocation.all.allocated"


def never_synchronises(trial: Trial) -> Finding | None:
    """Call a second time, everything compiled, with torch's sync-debug mode on."""
    call = Call(trial.quiet, POISON)
    call.run()
    before = torch.cuda.memory_stats()[_ALLOCATED]
    torch.cuda.set_sync_debug_mode("error")
    try:
        trial.binding.function(**call.arguments)
    except RuntimeError as error:
        if "synchroniz" not in str(error):
            raise
        rule = "a launch does not wait for the device, or it cannot be captured"
        return Finding("never_synchronises", f"the call synchronises: {error}".splitlines()[0], rule)
    finally:
        torch.cuda.set_sync_debug_mode("default")
        torch.cuda.synchronize()
    count = torch.cuda.memory_stats()[_ALLOCATED] - before
    if count and not trial.binding.returned:
        rule = "a kernel whose outputs are given allocates nothing"
        return Finding("never_synchronises", f"the call allocates {count} times", rule)
    return None
