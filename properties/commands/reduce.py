"""``cumae reduce``: find the smallest case that still fails the check of a saved failure."""

import time
from pathlib import Path

import click
from rich.console import Console

from cumae.oracle.model.rules import require
from cumae.properties.commands import options
from cumae.properties.commands.sources import load_source
from cumae.properties.results.case_text import is_text, name_of, shortened
from cumae.properties.results.counting import counted
from cumae.properties.results.explain import explain
from cumae.properties.results.failure_file import write_failure
from cumae.properties.results.verdict import failure_of
from cumae.properties.results.writable import require_file, writing
from cumae.properties.running.device import prepare
from cumae.properties.search.budget import Budget
from cumae.properties.search.isolated import reduce_isolated, search_isolated
from cumae.properties.search.job import Job


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@options.target
@options.operation(options.OF_A_CASE)
@options.dialect(options.INSTEAD_OF_THE_FILES, default=None)
@options.device
@options.limit()
@click.option(
    "--out", type=click.Path(path_type=Path), help="The file to write, instead of FILE.reduced.json."
)
def reduce(
    file: Path,
    target: str | None,
    operation: str | None,
    dialect: str | None,
    device: str,
    limit: float,
    out: Path | None,
) -> int:
    """Write the smallest case that fails the same check as FILE.

    It runs on TARGET, or on the function that FILE names. FILE may also be the text cumae1:… of a report, or
    with --op and --dialect a dump of an engine's tensors, whose inputs TARGET gets. Kernels run in isolated
    processes. If the case agrees now, nothing is written and the exit status is 0.
    """
    place = out or (Path("reduced.json") if is_text(file) else file.with_name(f"{file.stem}.reduced.json"))
    require_file("--out", place)
    chosen = prepare(device)
    saved = load_source(file, target, operation, dialect)
    rule = f"be given: {shortened(file)} has the tensors of an engine and names no function"
    require(target is not None or not saved.answer, "target", target, rule)
    check = saved.finding.check
    options.check_checks((check,) if check else (), f"{name_of(file)}.finding.check")
    started = time.monotonic()
    job = Job(
        target=saved.target,
        operation=saved.operation,
        dialect=saved.dialect,
        device=chosen,
        limit=limit,
        budget=Budget(examples=0),
        cases=(saved.tried,),
        checks=(check,) if check else None,
        reduce=False,
        sanitizer=saved.finding.sanitizer,
        schedule=saved.finding.schedule,
    )
    verdict = search_isolated(job)
    if verdict.failure is None:
        comparisons = counted(verdict.comparisons, "comparison")
        click.echo(f"FIXED  {shortened(file)}: {verdict.operation}, {comparisons}; nothing to reduce")
        return 0
    console = Console(stderr=True)
    finding = verdict.failure.finding
    with console.status("reducing …") as line:

        def show(steps: int) -> None:
            line.update(f"{counted(steps, 'case')} tried")

        smallest = reduce_isolated(job, finding, saved.tried, show)
    verdict.failure = failure_of(smallest.finding, smallest.tried, 0, place)
    click.echo(explain(verdict))
    with writing("--out", place):
        write_failure(place, verdict, verdict.failure)
    click.echo(f"{counted(smallest.steps, 'case')} tried in {time.monotonic() - started:.1f} s: {place}")
    return 1
