"""``cumae fuzz``: compare kernels with oracles until the time is up."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from cumae.oracle.model.rules import require
from cumae.properties.cases.given_promises import given_promises
from cumae.properties.commands.annotations import of_verdicts
from cumae.properties.commands.progress import INTERRUPTED, log_lines
from cumae.properties.commands.results import WIDE, print_interrupted, print_verdicts, write_figures
from cumae.properties.commands.values import parse_shard, time_or_cases
from cumae.properties.operations import shipped_kernels
from cumae.properties.operations.binding import binding_of
from cumae.properties.operations.targets import load_function
from cumae.properties.results.counting import counted
from cumae.properties.results.coverage import merged
from cumae.properties.results.coverage_file import require_coverage, write_coverage
from cumae.properties.results.verdict import Verdict
from cumae.properties.results.writable import require_folder
from cumae.properties.running.device import Device, prepare
from cumae.properties.running.sanitizer import sanitizer_of
from cumae.properties.search.budget import Budget
from cumae.properties.search.confirm import confirm
from cumae.properties.search.database import address_of, shared_at
from cumae.properties.search.isolated import searchers, searching
from cumae.properties.search.job import Job
from cumae.properties.search.printed import keeping_prints, own_output

TIME = "60s"
"""Time for all kernels unless the command says otherwise."""
LARGE_CHECKS = ("agrees", "writes_everything")
Show = Callable[[Verdict], None]
Run = Callable[[Job, Show | None], Verdict]


def fuzz(
    target: str | None,
    operation: str | None,
    dialect: str,
    promised: tuple[str, ...],
    time_text: str | None,
    cases: int | None,
    seed: int,
    shard: str,
    device: str,
    checks: tuple[str, ...],
    large: bool,
    file: Path | None,
    coverage: Path | None,
    failures: Path,
    database: str,
    output_format: str,
    isolate: bool | None,
    sanitize: str | None,
    limit: float,
    verbose: bool,
) -> int:
    """Fuzz TARGET against its oracle. Without TARGET, fuzz every shipped kernel."""
    seconds = time_or_cases(time_text, cases, default=TIME)
    given_promises(promised, "--promise")
    index, count = parse_shard(shard)
    require_folder("--failures", failures)
    require(not sanitize or isolate is not False, "--sanitize", sanitize, "be left out with --no-isolate")
    chosen = prepare(device)
    if target is not None and operation is None:
        operation, dialect = _names_of(target, dialect)
    database = address_of("--database", database, os.environ)
    if coverage is not None:
        require(chosen == "cpu", "--coverage", str(coverage), "be left out on a GPU, which hides what runs")
        require_coverage("--coverage", coverage)
    sanitizer_of(sanitize or "", chosen)
    targets = _targets(target, operation)
    share = None if seconds is None else seconds / len(targets)
    budget = Budget(examples=cases, seconds=share, seed=seed * count + index - 1)
    isolated = target is not None or bool(sanitize) if isolate is None else isolate
    jobs = [
        Job(
            target=kernel,
            operation=name,
            dialect=dialect,
            device=chosen,
            limit=limit,
            budget=budget,
            failures=failures,
            checks=checks or None,
            sanitizer=sanitize or "",
            part=f"{index}of{count}" if count > 1 else "",
            database=database,
            promised=promised,
        )
        for kernel, name in targets
    ]
    verdicts: list[Verdict] = []
    console = Console(file=own_output())
    try:
        with _runner(chosen, sanitize or "", isolated=isolated) as run:
            if large:
                _run_large(jobs, run, verdicts, console)
            _run(jobs, run, verdicts, console, isolated=isolated)
    except KeyboardInterrupt:
        print_interrupted(verdicts, console, verbose=verbose)
        if file is not None:
            write_figures(verdicts, file, seed=seed, shard=shard, interrupted=True)
        return INTERRUPTED
    print_verdicts(verdicts, console, verbose=verbose)
    if (shared := shared_at(database)) is not None and shared.trouble:
        click.echo(f"cumae: {shared.trouble}", err=True)
    for line in of_verdicts(verdicts) if output_format == "github" else ():
        click.echo(line)
    if file is not None:
        write_figures(verdicts, file, seed=seed, shard=shard)
    if coverage is not None:
        _write_coverage(verdicts, coverage, console)
    if unsaved := next((verdict.unsaved for verdict in verdicts if verdict.unsaved), ""):
        raise ValueError(f"--{unsaved}")
    return 0 if all(verdict.ok for verdict in verdicts) else 1


def _targets(target: str | None, operation: str | None) -> list[tuple[str, str]]:
    """Return the function to fuzz, or the shipped kernels of an operation or of all, with their operation."""
    if target and operation:
        return [(target, operation)]
    shipped = shipped_kernels(operation)
    if not shipped:
        raise ValueError(f"TARGET = None, must be given: no kernel of {operation} is shipped")
    return shipped


def _write_coverage(verdicts: Sequence[Verdict], file: Path, console: Console) -> None:
    kernels = merged(kernel for verdict in verdicts for kernel in verdict.coverage)
    write_coverage("--coverage", file, kernels)
    console.print(f"coverage of {counted(len(kernels), 'kernel')}: {file}", markup=False, soft_wrap=True)


def _names_of(target: str, dialect: str) -> tuple[str, str]:
    """Return the operation and the dialect of a test made by ``conforms_to``. Imports its file, and torch."""
    with keeping_prints():
        binding = binding_of(load_function(target), None, dialect)
    return binding.operation.name, binding.dialect.name


@contextmanager
def _runner(device: Device, sanitizer: str, *, isolated: bool) -> Iterator[Run]:
    """Yield a function that searches one job."""
    if not isolated:
        from cumae.properties.search.direct import search_here  # imports torch, which takes a second

        yield search_here
        return
    with searchers(device, sanitizer=sanitizer) as processes:

        def run(job: Job, show: Show | None) -> Verdict:
            verdict = processes.run(searching(job, show))
            confirm(job, verdict)
            return verdict

        yield run


def _run_large(jobs: list[Job], run: Run, verdicts: list[Verdict], console: Console) -> None:
    """Add a verdict on one very large case for each kernel: values and extent, not every check."""
    for job in jobs:
        console.print(f"{_short(job)}: one very large case …")
        large = replace(job, large=True, checks=LARGE_CHECKS, budget=Budget(examples=0))
        verdicts.append(run(large, None))


def _run(jobs: list[Job], run: Run, verdicts: list[Verdict], console: Console, *, isolated: bool) -> None:
    """Add a verdict for each kernel; an interrupted search adds its partial verdict."""
    where = "Triton's interpreter" if jobs[0].device == "cpu" else "the GPU"
    theirs = "its oracle" if len(jobs) == 1 else "their oracles"
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20 if console.width >= WIDE else 4),
        TextColumn("{task.fields[status]}"),
        TimeElapsedColumn(),
    )
    tell = log_lines("fuzz", unless=console.is_terminal)
    progress = Progress(*columns, console=console)
    with ExitStack() as begun:

        def begin() -> None:
            """Print the first line and the bars, once checks of a function are known: a bad one has none."""
            if not progress.live.is_started:
                console.print(f"{counted(len(jobs), 'kernel')} against {theirs}, on {where}")
                begun.enter_context(progress)

        for job in jobs:
            examples = job.budget.examples
            total = job.budget.seconds if examples is None else examples
            task = progress.add_task(_short(job), total=total, status="")

            def show(verdict: Verdict, task: TaskID = task, examples: int | None = examples) -> None:
                if verdict.checks:
                    begin()
                if not verdicts or verdicts[-1] is not verdict:
                    verdicts.append(verdict)
                done = verdict.seconds if examples is None else verdict.cases
                rate = verdict.cases / verdict.seconds if verdict.seconds else 0.0
                status = f"{counted(verdict.cases, 'case')}, {rate:.0f}/s"
                progress.update(task, completed=done, status=status)
                tell(f"{progress.tasks[task].description}: {status}")

            verdict = run(job, show)
            begin()
            mark = "[green]agrees" if verdict.ok else f"[red]{verdict.status}"
            progress.update(task, status=f"{counted(verdict.cases, 'case')}  {mark}", completed=total)
            if verdict.failure is not None and not isolated and _is_lost(job.device):
                console.print("the CUDA context is lost, no further kernel can run: add --isolate")
                return


def _is_lost(device: Device) -> bool:
    from cumae.properties.search.findings import device_lost  # imports torch, which is there by now

    return device_lost(device)


def _short(job: Job) -> str:
    return job.target.rpartition(":")[2]
