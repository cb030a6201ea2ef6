"""What a check finds on a case, whatever the kernel does."""

from collections.abc import Callable, Collection
from dataclasses import replace

import torch

from cumae.oracle import Case
from cumae.properties.checks import CHECKS, Trial
from cumae.properties.operations.tracebacks import traceback_of
from cumae.properties.results.verdict import Finding
from cumae.properties.running.device import Device
from cumae.properties.running.integrity import tampering
from cumae.properties.running.observation import KernelRaised


def finding_of(check: str, trial: Trial) -> Finding | None:
    """Return what one check found; a kernel that raises on a valid case is a finding."""
    trial.raised = False
    try:
        return CHECKS[check](trial)
    except (KernelRaised, RuntimeError) as error:
        finding = finding_of_error(check, error, trial.device)
        trial.raised = True
        return replace(finding, message=f"{finding.message}, {trial.because}") if trial.because else finding


def of_the_case_run(
    finding: Finding, trial: Trial, checks: Collection[str], again: Callable[[str, Case], Trial]
) -> tuple[Finding, Case]:
    """Return a finding about the case on which the function raised, and that case.

    A check also calls on other cases. Where the function raised on one of these, the report is about that
    one, if it raises there again: under `agrees` if that is among ``checks``, else under the same check.
    ``again`` returns the trial of a case under a check.
    """
    other = trial.running if trial.raised else None
    if other is not None:
        for check in dict.fromkeys(("agrees", finding.check)):
            if check in checks:
                second = again(check, other)
                found = finding_of(check, second)
                if found is not None and second.raised and second.running in (None, other):
                    return found, other
    return finding, trial.case


def finding_of_error(check: str, error: Exception, device: Device) -> Finding:
    """Return the finding that an error out of a check is: the kernel's own, or that of a lost CUDA context.

    Any other is a defect of the check, and is raised. What a context was lost by may be told late, by
    whatever is done next.
    """
    told = lost(device)
    if not isinstance(error, KernelRaised):
        if not told:
            raise error
        error = KernelRaised(f"raised {type(error).__name__}: {error}".splitlines()[0], traceback_of(error))
    rule = "a valid case is no error"
    return Finding(check, f"the kernel {error}{told}", rule, ended=bool(told), traceback=error.traceback)


def tampered(check: str) -> Finding | None:
    """Return what says that the function has replaced something of the suite, which is put back."""
    name = tampering()
    if not name:
        return None
    return Finding(check, f"the function replaced `{name}`", "a function under test leaves its judge alone")


def lost(device: Device) -> str:
    """Return what is said behind an error that has made the CUDA context of this process useless."""
    return "; the CUDA context is lost" if device_lost(device) else ""


def device_lost(device: Device) -> bool:
    """Whether an illegal access has made the CUDA context of this process useless."""
    if device != "cuda" or not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return False
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False
