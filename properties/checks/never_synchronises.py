"""GPU: no device-to-host synchronisation; in-place kernels do not allocate."""

from typing import Any
from warnings import catch_warnings, filterwarnings

import torch

from cumae.properties.results.verdict import Finding
from cumae.properties.running.bench import POISON
from cumae.properties.running.call import Call
from cumae.properties.running.observation import KernelRaised
from cumae.properties.running.trial import Trial

SYNCHRONISES = "a launch must not wait for the device: otherwise it cannot be captured"
ALLOCATES = "a call with given output buffers must not allocate"
_ALLOCATED = "allocation.all.allocated"


def never_synchronises(trial: Trial) -> Finding | None:
    """Call a second time, after compilation, with torch's sync-debug mode on."""
    call = trial.quiet.call(POISON)
    call.run()
    return synchronised(call, allocates=bool(trial.binding.returned))[1]


def synchronised(call: Call, *, allocates: bool) -> tuple[Any, Finding | None]:
    """Return a call's answer, and a finding if it synchronised or, unless it may, allocated.

    Raises ``KernelRaised`` if the function raises any other error.
    """
    before = torch.cuda.memory_stats()[_ALLOCATED]
    with catch_warnings():
        filterwarnings("ignore", "Synchronization debug mode")  # torch warns of a prototype
        torch.cuda.set_sync_debug_mode("error")
    try:
        answer = call.function(**call.arguments)
    except Exception as error:
        if isinstance(error, RuntimeError) and "synchroniz" in str(error):
            told = f"the call synchronises: {error}".splitlines()[0]
            return None, Finding("never_synchronises", told, SYNCHRONISES)
        raise KernelRaised.of(error, call.function) from error
    finally:
        torch.cuda.set_sync_debug_mode("default")
        torch.cuda.synchronize()
    count = torch.cuda.memory_stats()[_ALLOCATED] - before
    if not count or allocates:
        return answer, None
    return answer, Finding("never_synchronises", f"the call allocates {count} times", ALLOCATES)
