"""GPU: a kernel that begins before the kernel before it has ended waits before it touches its arguments."""

from dataclasses import replace

import torch

from cumae.properties.checks.replays_in_graph import is_same_launch, of_the_same_sizes
from cumae.properties.comparing.repeated import changed_since
from cumae.properties.results.verdict import Finding
from cumae.properties.running.bench import POISON
from cumae.properties.running.call import Call
from cumae.properties.running.device import can_begin_early
from cumae.properties.running.trial import Trial

MOST_BYTES = 2**19
"""Bytes of arguments that are written late: the kernel that writes them leaves most of the GPU to others."""
HASTY = "launched with launch_pdl, a kernel changes memory before the kernel before it has ended"
RULE = "the kernel before may still read or write that: a kernel that begins early waits first"
LOADS = "it loads arguments before the kernel before it has ended: right if that one does not write them"


def waits_for_arguments(trial: Trial) -> Finding | None:
    """Call behind a kernel that writes the arguments late and lets the next launch begin at once.

    First it writes what they hold already, so that only stores from before its end are lost. Then they hold
    another case until its end: a function that loads that is noted, for the arguments may be weights.
    """
    call = trial.quiet.call(POISON) if can_begin_early() else None
    if call is None or any(b.large is not None for b in (*call.inputs, *call.outputs)):
        trial.saw_nothing = True
        return None
    content = call.arenas[0].memory.bytes.clone()
    if content.numel() > MOST_BYTES:
        trial.saw_nothing = True
        return None
    if (found := _changed(trial, call, content)) is not None:
        return replace(found, message=f"{HASTY}: {found.message}", rule=RULE)
    is_on_host = any(name.endswith("_cpu") for name in trial.binding.inputs)
    for other in () if is_on_host else of_the_same_sizes(trial.quiet.case):
        if trial.binding.why_not(other) is None:
            before = trial.bench(other).call(POISON, earlier=call)
            if is_same_launch(call, before) and _changed(trial, call, content) is not None:
                trial.note = LOADS
                break
    return None


def _changed(trial: Trial, call: Call, content: torch.Tensor) -> Finding | None:
    """Make the call while a kernel is to write the content of its memory; return how its answer differs."""
    from cumae.properties.running.late_writes import write_late

    first = trial.first
    torch.cuda.synchronize()
    write_late(call.arenas[0].memory.bytes, content)
    seen = trial.quiet.answered(call)
    return changed_since("waits_for_arguments", trial, first, seen, "when its arguments were written late")
