"""``cumae bugs``: search for each known bug from cold."""

from pathlib import Path
from statistics import median

from rich.box import SIMPLE
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column, Table

from cumae.fixtures.bugs import OUT_OF_REACH, Bug
from cumae.properties.commands.json_file import write_measured
from cumae.properties.commands.progress import INTERRUPTED, log_lines
from cumae.properties.faults.known_bugs import ELSEWHERE, Hunt, chosen, hunts, status_of
from cumae.properties.results.counting import counted
from cumae.properties.results.verdict import Verdict
from cumae.properties.running.device import prepare


def bugs(report: str | None, seed: int, device: str, file: Path | None) -> int:
    """Search for the known engine bugs and print what caught each. Each is a broken implementation."""
    found = chosen(report)
    where = prepare(device)
    became: dict[int, Hunt] = {}
    stopped = False
    console = Console()
    if not console.is_terminal:
        console.width = 140
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TextColumn("{task.completed} of {task.total}  {task.fields[status]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("bugs", total=len(found), status="")

        tell = log_lines("bugs", unless=console.is_terminal)

        def show(bug: Bug, verdict: Verdict) -> None:
            status = f"{bug.name}: {counted(verdict.cases, 'case')}"
            progress.update(task, status=status)
            tell(f"{len(became)} of {len(found)}  {status}")

        try:
            for number, hunt in hunts(found, where, seed, show):
                became[number] = hunt
                progress.advance(task)
        except KeyboardInterrupt:
            stopped = True
    in_order = [became[number] for number in sorted(became)]
    if stopped:
        console.print(f"interrupted: {len(became)} of {counted(len(found), 'bug')} tried")
    _print(in_order, console)
    if report is None:
        console.print("out of reach:")
        for reports, reason in OUT_OF_REACH.items():
            console.print(f"  {reports}: {reason}", markup=False, highlight=False)
    if file is not None:
        _write(in_order, file)
    return INTERRUPTED if stopped else status_of(in_order)


def _print(hunts: list[Hunt], console: Console) -> None:
    """Print a row for each bug, and the totals."""
    numbers = ("cases", "seconds", "requests", "tokens", "steps")
    columns = [Column(name, no_wrap=True) for name in ("report", "operation, dialect", "caught by")]
    table = Table(*columns, *(Column(name, justify="right") for name in numbers), box=SIMPLE)
    for one in hunts:
        bug, failure = one.bug, one.failure
        caught = one.outcome.upper() if one.outcome == "escaped" else one.outcome
        size: tuple[str, ...] = ("", "", "")
        if failure is not None:
            caught = failure.finding.check
            if caught != bug.check:
                caught += f" (expected {bug.check})"
            size = tuple(map(str, one.size))
        seconds = f"{one.seconds:.2f}" if one.cases else ""
        cases = str(one.cases or "")
        table.add_row(bug.report, f"{bug.operation}, {bug.dialect}", caught, cases, seconds, *size)
    console.print(table)
    console.print("requests, tokens, steps: of the minimal case")
    caught_ones = [one for one in hunts if one.failure is not None]
    tried = [one for one in hunts if one.outcome not in ELSEWHERE]
    line = f"{len(caught_ones)} of {counted(len(tried), 'bug')} caught"
    if caught_ones:
        line += f", median {median(one.seconds for one in caught_ones):.2f} s"
    if len(tried) < len(hunts):
        line += f"; left for another machine: {len(hunts) - len(tried)}"
    console.print(line)


def _write(hunts: list[Hunt], file: Path) -> None:
    """Write a record for each bug, and the machine."""
    records = []
    for one in hunts:
        requests, tokens, steps = one.size
        records.append(
            {
                "report": one.bug.report,
                "target": one.bug.target,
                "operation": one.bug.operation,
                "dialect": one.bug.dialect,
                "outcome": one.outcome,
                "check": one.failure.finding.check if one.failure else None,
                "expected": one.bug.check,
                "cases": one.cases,
                "seconds": round(one.seconds, 3),
                "reduce_seconds": round(one.reduce_seconds, 3),
                "minimal": {"requests": requests, "tokens": tokens, "steps": steps},
            }
        )
    write_measured(file, bugs=records, out_of_reach=dict(OUT_OF_REACH))
