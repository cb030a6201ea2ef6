"""``cumae reduce``: find the smallest case that still fails the check of a saved failure."""

import time
from pathlib import Path

import click

from cumae.oracle import Case, Trace
from cumae.oracle.model.rules import require
from cumae.properties.commands import options
from cumae.properties.commands.progress import INTERRUPTED, telling
from cumae.properties.commands.results import fitted_report
from cumae.properties.commands.sources import job_of, load_source
from cumae.properties.results.case_text import is_text, name_of, shortened
from cumae.properties.results.counting import counted
from cumae.properties.results.failure_file import steps_of, write_failure
from cumae.properties.results.verdict import failure_of
from cumae.properties.results.writable import require_file, writing
from cumae.properties.running.device import prepare
from cumae.properties.search.confirm import reduced_alone
from cumae.properties.search.isolated import Smallest, reduce_isolated, search_isolated
from cumae.properties.search.job import Best


def reduce(
    file: Path,
    target: str | None,
    operation: str | None,
    dialect: str | None,
    device: str,
    limit: float,
    out: Path | None,
) -> int:
    """Write the smallest case that fails the same check as FILE."""
    place = out or (Path("reduced.json") if is_text(file) else file.with_name(f"{file.stem}.reduced.json"))
    require_file("--out", place)
    chosen = prepare(device)
    saved = load_source(file, target, operation, dialect)
    rule = f"be given: {shortened(file)} has the tensors of an engine and names no function"
    require(target is not None or not saved.answer, "target", target, rule)
    check = saved.finding.check
    options.check_checks((check,) if check else (), f"{name_of(file)}.finding.check")
    started = time.monotonic()
    job = job_of(saved, chosen, limit, (check,) if check else None)
    verdict = search_isolated(job)
    if verdict.failure is None:
        comparisons = counted(verdict.comparisons, "comparison")
        click.echo(f"FIXED  {shortened(file)}: {verdict.operation}, {comparisons}; nothing to reduce")
        return 0
    finding, stopped = verdict.failure.finding, False
    smallest = Smallest(finding, saved.tried, 0)
    with telling("reducing") as tell:

        def show(steps: int, best: Best) -> None:
            nonlocal smallest
            smallest = Smallest(*best, steps)
            tell(f"{counted(steps, 'case')} tried, {told_size(best[1])}")

        try:
            smallest = reduce_isolated(job, finding, saved.tried, show)
            smallest = reduced_alone(job, (finding, saved.tried), smallest, show)
        except KeyboardInterrupt:
            stopped = True
    verdict.failure = failure_of(smallest.finding, smallest.tried, 0, place)
    click.echo(fitted_report(verdict))
    with writing("--out", place):
        write_failure(place, verdict, verdict.failure)
    stop = "interrupted: " if stopped else ""
    click.echo(
        f"{stop}{counted(smallest.steps, 'case')} tried in {time.monotonic() - started:.1f} s: {place}"
    )
    return INTERRUPTED if stopped else 1


def told_size(tried: Case | Trace) -> str:
    """Return the size of a case or trace in words."""
    steps = steps_of(tried)
    requests = max(len(step.batch.requests) for step in steps)
    return f"{counted(requests, 'request')} left" + (f" in {len(steps)} steps" if len(steps) > 1 else "")
