"""A search in this process, of what is trusted not to end it."""

from collections.abc import Callable
from pathlib import Path

from cumae.oracle import Case, Trace
from cumae.properties.cases.seeded import large_case
from cumae.properties.operations.binding import binding_of
from cumae.properties.operations.targets import load_function
from cumae.properties.results.failure_file import Saved
from cumae.properties.results.verdict import Verdict
from cumae.properties.running.device import Device
from cumae.properties.running.integrity import tampering
from cumae.properties.search.budget import Budget
from cumae.properties.search.first_cases import first_cases
from cumae.properties.search.loop import search
from cumae.properties.search.worker import Job


def search_here(job: Job, progress: Callable[[Verdict], None] | None = None) -> Verdict:
    """Return the verdict of a job done in this process."""
    tampering()  # the suite as it is before the function's module is imported
    binding = binding_of(load_function(job.target), job.operation, job.dialect)
    first: list[Case | Trace]
    if job.large:
        first = [large_case(0, binding.domain, binding.features)]
    else:
        first = first_cases(binding, job.target, job.failures)
    return search(
        binding,
        job.device,
        job.budget,
        checks=job.checks,
        first=first,
        save_to=job.failures,
        progress=progress,
        target=job.target,
    )


def replayed_here(file: Path, saved: Saved, device: Device) -> Verdict:
    """Return the verdict of the target on the saved case and every check."""
    binding = binding_of(load_function(saved.target), saved.operation, saved.dialect)
    cases = saved.trace.steps if saved.trace else (saved.case,)
    reason = next((reason for case in cases if (reason := binding.why_not(case))), None)
    if reason is not None:
        raise ValueError(f"{file}: case, must be within what {binding.name} promises: it varies {reason}")
    budget = Budget(examples=0)
    return search(binding, device, budget, first=[saved.tried], reduce=False, target=saved.target)
