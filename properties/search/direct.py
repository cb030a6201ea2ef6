"""Searches in this process, for functions that will not crash it: ``cumae.check`` and unisolated jobs."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cumae.oracle import Case, OperationName, Trace
from cumae.oracle.model.rules import require_int
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.seeded import large_case
from cumae.properties.checks import CHECKS, CheckName
from cumae.properties.dialects import Dialect, DialectName
from cumae.properties.operations import Operation
from cumae.properties.operations.binding import Binding, binding_of
from cumae.properties.results.verdict import Verdict
from cumae.properties.results.writable import require_folder
from cumae.properties.running.device import prepare
from cumae.properties.running.integrity import tampering
from cumae.properties.running.trial import Begins
from cumae.properties.search.budget import Budget
from cumae.properties.search.database import Shared, shared_at
from cumae.properties.search.first_cases import first_cases
from cumae.properties.search.job import Job
from cumae.properties.search.loop import search
from cumae.properties.search.printed import keeping_prints
from cumae.properties.search.profiles import FAILURES


def check(
    function: Callable[..., Any],
    operation: OperationName | Operation,
    *,
    dialect: DialectName | Dialect = "cumae",
    domain: Domain | None = None,
    checks: Sequence[CheckName] | None = None,
    examples: int | None = 200,
    seconds: float | None = None,
    seed: int = 0,
    device: str = "auto",
    save_to: Path | str | None = FAILURES,
) -> Verdict:
    """Return the verdict on a function after saved failures, fixtures, drawn and seeded cases.

    The function's parameters are filled by name. The verdict is true if everything agreed, as is its
    ``.ok``; ``.status`` is the result in words, and ``.failure`` the finding with its smallest case and
    its file. Standard output gets nothing that the function prints; ``.printed`` has the last lines.
    ``examples``: cases beyond the first ones, at least 1, None for any number; ``seconds``: after so many
    the search ends. ``save_to``: the folder of saved failures, None for no files.
    Raises ``ValueError`` for unknown names, for a check that needs a GPU where there is none, and for a
    folder that cannot be written.
    """
    require_examples(examples)
    if isinstance(checks, str):
        raise ValueError(f"checks = {checks!r}, must be a list of names")
    chosen = prepare(device)
    binding = binding_of(function, operation, dialect, domain)
    budget = Budget(examples=examples, seconds=seconds, seed=seed)
    folder = None if save_to is None else Path(save_to)
    if folder is not None:
        require_folder("save_to", folder)
    first = first_cases(binding, binding.name, folder, checks or CHECKS)
    with keeping_prints() as printed:
        verdict = search(
            binding,
            chosen,
            budget,
            checks=checks,
            first=first,
            save_to=folder,
            progress=lambda _: printed.trim(),
        )
        verdict.printed = printed.lines()
    return verdict


def require_examples(examples: int | None) -> None:
    """Raise ``ValueError`` for a number of cases below 1."""
    if examples is not None:
        require_int("examples", examples, 1)


def search_here(job: Job, progress: Callable[[Verdict], None] | None = None) -> Verdict:
    """Return the verdict of a job, run in this process; the verdict keeps the last lines that are printed."""
    with keeping_prints() as printed:

        def seen(verdict: Verdict) -> None:
            printed.trim()
            if progress is not None:
                progress(verdict)

        verdict = search_directly(job, seen)
        verdict.printed = printed.lines()
    return verdict


def search_directly(
    job: Job,
    progress: Callable[[Verdict], None] | None = None,
    before: Callable[[str, Case | Trace], None] | None = None,
    begins: Begins | None = None,
) -> Verdict:
    """Return the verdict of a job, run in this process; the other arguments are those of ``search``."""
    tampering()  # records the suite before the function's module is imported
    binding = job.bound()
    shared = shared_at(job.database)
    return search(
        binding,
        job.device,
        job.budget,
        checks=job.checks,
        first=_first(job, binding, shared),
        save_to=job.failures,
        progress=progress,
        before=before,
        begins=begins,
        reduce=job.reduce,
        target=job.target,
        schedule=job.schedule,
        part=job.part,
        shared=shared,
    )


def _first(job: Job, binding: Binding, shared: Shared | None) -> Sequence[Case | Trace]:
    if job.large:
        return [large_case(0, binding.domain, binding.features)]
    if job.cases is not None:
        return job.cases
    found = (
        job.shared if shared is None else shared.fetched(job.operation, job.dialect, job.target, job.checks)
    )
    return first_cases(binding, job.target, job.failures, job.checks or CHECKS, found)
