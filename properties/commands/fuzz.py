"""``cumae fuzz``: kernels against oracles until the time is up."""

import json
import re
import sys
from collections import Counter
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Column, Table
from rich.text import Text

from cumae.properties.batches.seeded import large_case
from cumae.properties.batches.shapes import SHAPES
from cumae.properties.conformance import FAILURES, binding_of, fixture_cases
from cumae.properties.operations import OPERATIONS
from cumae.properties.reports.explain import explain
from cumae.properties.running.binding import Binding
from cumae.properties.running.device import DEVICES, Device, prepare
from cumae.properties.running.machine import machine
from cumae.properties.search import Budget, search
from cumae.properties.targets import load_function
from cumae.properties.verdict import Verdict

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def parse_time(text: str) -> float:
    """Return seconds of ``90``, ``60s``, ``5m`` or ``1h``; ``ValueError`` for anything else."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    if match is None or float(match[1]) == 0:
        raise ValueError(f"--time = {text!r}, must be a time such as 60s, 5m or 1h")
    return float(match[1]) * _UNITS[match[2] or "s"]


def parse_shard(text: str) -> tuple[int, int]:
    """Return (i, n) of ``i/n`` with 1 <= i <= n; ``ValueError`` for anything else."""
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise ValueError(f"--shard = {text!r}, must be i/n with 1 <= i <= n")
    return int(match[1]), int(match[2])


@click.command()
@click.argument("target", required=False)
@click.option("--op", "operation", help="The operation TARGET computes.")
@click.option("--dialect", default="cumae", show_default=True, help="How TARGET names its arguments.")
@click.option("--time", "time_text", default="60s", show_default=True, help="Time for all kernels together.")
@click.option("--cases", type=click.IntRange(1), help="Cases a kernel, instead of --time.")
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Other seeds try other cases."
)
@click.option(
    "--shard", default="1/1", show_default=True, help="i/n: the i-th of n runs with seeds of their own."
)
@click.option("--device", type=click.Choice(DEVICES), default="auto", show_default=True)
@click.option("--large", is_flag=True, help="First one case of 65,536 requests and a million tokens.")
@click.option("--json", "file", type=click.Path(path_type=Path), help="Write the figures here as well.")
@click.option("--failures", type=click.Path(path_type=Path), default=FAILURES, show_default=True)
def fuzz(
    target: str | None,
    operation: str | None,
    dialect: str,
    time_text: str,
    cases: int | None,
    seed: int,
    shard: str,
    device: str,
    large: bool,
    file: Path | None,
    failures: Path,
) -> int:
    """Fuzz TARGET (module:function), or without one every kernel shipped here, against the oracles."""
    seconds = None if cases else parse_time(time_text)
    index, count = parse_shard(shard)
    if target is not None and operation is None:
        raise ValueError("--op = None, must name the operation that TARGET computes")
    if target is None and operation is not None and operation not in OPERATIONS:
        raise ValueError(f"--op = {operation!r}, must be one of {', '.join(OPERATIONS)}")
    chosen = prepare(device)
    if target is not None and operation is not None:
        bindings = [binding_of(load_function(target), operation, dialect)]
    else:
        chosen_operations = [operation] if operation else list(OPERATIONS)
        bindings = [
            binding_of(load_function(kernel), name, dialect)
            for name in chosen_operations
            for kernel in OPERATIONS[name].kernels
        ]
    share = None if seconds is None else seconds / len(bindings)
    budget = Budget(examples=cases, seconds=share, seed=seed * count + index - 1)
    console = Console()
    verdicts = _run_large(bindings, chosen, failures, console) if large else []
    verdicts += _run(bindings, chosen, budget, failures, console)
    _report(verdicts, console)
    if file is not None:
        _write_figures(verdicts, file)
    return 0 if all(verdict.ok for verdict in verdicts) else 1


def _run_large(bindings: list[Binding], device: Device, failures: Path, console: Console) -> list[Verdict]:
    """Return a verdict on one very large case for each kernel: values and extent, not every check."""
    verdicts = []
    for binding in bindings:
        console.print(f"{binding.function.__name__}: one case of 65,536 requests and 1,000,000 tokens …")
        case = large_case(0, binding.domain, binding.features)
        checks = ["agrees", "writes_everything"]
        verdicts.append(
            search(binding, device, Budget(examples=0), checks=checks, first=[case], save_to=failures)
        )
    return verdicts


def _write_figures(verdicts: list[Verdict], file: Path) -> None:
    """Write what was run on what, one record a verdict."""
    records = [
        {
            "kernel": verdict.target,
            "operation": verdict.operation,
            "status": verdict.status,
            "checks": list(verdict.checks),
            "cases": verdict.cases,
            "comparisons": verdict.comparisons,
            "seconds": round(verdict.seconds, 2),
        }
        for verdict in verdicts
    ]
    command = " ".join(["cumae", *sys.argv[1:]])
    file.write_text(json.dumps({**machine(), "command": command, "verdicts": records}, indent=1) + "\n")


def _run(
    bindings: list[Binding], device: Device, budget: Budget, failures: Path, console: Console
) -> list[Verdict]:
    where = "Triton's interpreter" if device == "cpu" else "the GPU"
    console.print(f"{len(bindings)} kernels against their oracles, on {where}")
    verdicts = []
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[status]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        for binding in bindings:
            total = budget.seconds if budget.examples is None else budget.examples
            task = progress.add_task(binding.function.__name__, total=total, status="")

            def show(verdict: Verdict, task: TaskID = task) -> None:
                done = verdict.seconds if budget.examples is None else verdict.cases
                rate = verdict.cases / verdict.seconds if verdict.seconds else 0.0
                progress.update(
                    task,
                    completed=done,
                    status=f"{verdict.cases} cases, {rate:.0f}/s",
                )

            verdict = search(
                binding, device, budget, first=fixture_cases(binding), save_to=failures, progress=show
            )
            verdicts.append(verdict)
            mark = "[green]agrees" if verdict.ok else f"[red]{verdict.status}"
            progress.update(task, status=f"{verdict.cases} cases  {mark}", completed=total)
    return verdicts


def _report(verdicts: list[Verdict], console: Console) -> None:
    shown: Counter[str] = Counter()
    for verdict in verdicts:
        shown.update(verdict.shapes)
    cases = sum(verdict.cases for verdict in verdicts)
    _print_shapes(shown, cases, console)
    table = Table(Column("kernel", no_wrap=True), "verdict", "cases", "comparisons", "seconds", "cases/s")
    for verdict in verdicts:
        rate = verdict.cases / verdict.seconds if verdict.seconds else 0.0
        table.add_row(
            verdict.target.split(":")[-1],
            verdict.status,
            str(verdict.cases),
            str(verdict.comparisons),
            f"{verdict.seconds:.1f}",
            f"{rate:.0f}",
        )
    console.print(table)
    wrong = [verdict for verdict in verdicts if not verdict.ok]
    for verdict in wrong:
        console.print()
        console.print(explain(verdict), markup=False, highlight=False, soft_wrap=True)
    comparisons = sum(verdict.comparisons for verdict in verdicts)
    result = f"{len(wrong)} of {len(verdicts)} kernels disagree" if wrong else "all agree"
    console.print(f"{result}: {cases} cases, {comparisons} comparisons")


def _print_shapes(shown: Counter[str], cases: int, console: Console) -> None:
    """Print the share of cases that show each shape, and name the shapes that none showed."""
    cells = [f"{100 * shown[name] / max(cases, 1):5.1f}% {name}" for name in SHAPES if shown[name]]
    if cells:
        console.print("shapes of cases, share of all:")
        columns = max(1, console.width // (max(map(len, cells)) + 2))
        grid = Table.grid(padding=(0, 2))
        rows = -(-len(cells) // columns)
        for i in range(rows):
            grid.add_row(*(Text(cell, no_wrap=True) for cell in cells[i::rows]))
        console.print(grid)
    missing = [name for name in SHAPES if not shown[name]]
    if missing:
        console.print(f"shown by no case: {', '.join(missing)}", markup=False)
