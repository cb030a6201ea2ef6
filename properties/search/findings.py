"""The finding of a check on a case, including errors and lost CUDA contexts."""

from collections.abc import Callable, Collection
from dataclasses import replace

import torch

from cumae.oracle import Case
from cumae.properties.checks import CHECKS, Trial
from cumae.properties.comparing.evidence import poisoned_outputs
from cumae.properties.interpreter.tuning import told
from cumae.properties.operations.tracebacks import traceback_of
from cumae.properties.results.verdict import Finding
from cumae.properties.running.device import Device
from cumae.properties.running.integrity import tampering
from cumae.properties.running.observation import KernelRaised

LEAST_WRONG = 2
"""Doubted cases on which a function that keeps no answers is wrong; on one of them, any may be wrong."""
ANSWERS = "a function must return the outputs that it does not name, in their order"


def finding_of(check: str, trial: Trial) -> Finding | None:
    """Return the finding of one check; a kernel that raises on a valid case is a finding too."""
    trial.raised, trial.shown, trial.doubted = False, None, ()
    try:
        return _as_tuned(CHECKS[check](trial), trial)
    except (KernelRaised, RuntimeError) as error:
        finding = finding_of_error(check, error, trial.device)
        if finding.traceback and (poisoned := poisoned_outputs(trial.binding)):
            finding = replace(finding, rule=f"{finding.rule}; {poisoned}")
        trial.raised = True
        if not trial.because:
            return finding
        message = f"{finding.message}, {trial.because}"
        return replace(finding, message=message, left_out_by=trial.left_out_by)


def _as_tuned(finding: Finding | None, trial: Trial) -> Finding | None:
    """Return a finding with how autotuned kernels were tuned in the first call."""
    watch = trial.first.watch if finding is not None else None
    how = told(watch.tuned) if watch is not None else ""
    return replace(finding, message=f"{finding.message}; {how}") if finding is not None and how else finding


def of_the_case_run(
    finding: Finding, trial: Trial, checks: Collection[str], again: Callable[[str, Case], Trial]
) -> tuple[Finding, Case]:
    """Return a finding about the case on which the function raised, and that case.

    A check may also call the function on other cases. If it raised on one of these and raises there
    again, the report is about that case: under `agrees` if that is among ``checks``, else under the same
    check. A check may also name the variant of the case that its finding is about. ``again`` returns the
    trial of a case under a check. If the function is wrong on two doubted cases, it is about the first one.
    """
    wrong = [(found, case) for case in trial.doubted if (found := _wrong(case, checks, again)) is not None]
    if len(wrong) >= LEAST_WRONG:
        return wrong[0]
    other = trial.running if trial.raised else None
    if other is not None:
        for check in dict.fromkeys(("agrees", finding.check)):
            if check in checks:
                second = again(check, other)
                found = finding_of(check, second)
                if found is not None and second.raised and second.running in (None, other):
                    return found, other
    return finding, trial.shown or trial.case


def finding_of_error(check: str, error: Exception, device: Device) -> Finding:
    """Return the finding for an error out of a check: the kernel's own error, or a lost CUDA context.

    Any other error is a defect of the check, and is raised. If the kernel loses the CUDA context, a later
    call may be the first to raise.
    """
    told = lost(device)
    if not isinstance(error, KernelRaised):
        if not told:
            raise error
        error = KernelRaised(f"raised {type(error).__name__}: {error}".splitlines()[0], traceback_of(error))
    rule = "a valid case must not raise"
    if error.waits:
        rule = "a launch must end"
    elif not error.traceback:  # it did not raise: it returned something else
        rule = ANSWERS
    return Finding(check, f"the kernel {error}{told}", rule, ended=bool(told), traceback=error.traceback)


def _wrong(case: Case, checks: Collection[str], again: Callable[[str, Case], Trial]) -> Finding | None:
    """Return the finding of `agrees` on a case, if it is among the checks."""
    return finding_of("agrees", again("agrees", case)) if "agrees" in checks else None


def tampered(check: str) -> Finding | None:
    """Restore the suite; return a finding if the function has replaced a part of it."""
    name = tampering()
    if not name:
        return None
    return Finding(check, f"the function replaced `{name}`", "a function must not modify the test suite")


def lost(device: Device) -> str:
    """Return the end of the message of an error that lost the CUDA context; empty otherwise."""
    return "; the CUDA context is lost" if device_lost(device) else ""


def device_lost(device: Device) -> bool:
    """Return whether an illegal access has lost the CUDA context of this process."""
    if device != "cuda" or not torch.cuda.is_initialized():
        return False
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False
