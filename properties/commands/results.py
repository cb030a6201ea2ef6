"""Print and write the verdicts of a run."""

import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from cumae.oracle import to_json, trace_to_json
from cumae.properties.cases.shapes import SHAPES
from cumae.properties.commands.json_file import write_json
from cumae.properties.results.counting import counted
from cumae.properties.results.coverage import coverage_data, coverage_lines
from cumae.properties.results.explain import explain, slow_line, time_line, time_was_short
from cumae.properties.results.marks import place_of
from cumae.properties.results.reach import largest_among, largest_line, pairs_line
from cumae.properties.results.verdict import Failure, Verdict
from cumae.properties.running.machine import machine


def print_verdicts(verdicts: list[Verdict], console: Console, *, verbose: bool = False) -> None:
    """Print the shapes of cases, a row for each verdict, each failure, and the result as one line.

    ``verbose``: also where the time of each went, what its kernels were not asked, and tracebacks.
    """
    shown: Counter[str] = Counter()
    for verdict in verdicts:
        shown.update(verdict.shapes)
    cases = sum(verdict.cases for verdict in verdicts)
    wrong = [verdict for verdict in verdicts if not verdict.ok]
    if not wrong:  # the shapes would bury the failures
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
    for verdict in verdicts:
        name = verdict.target.split(":")[-1]
        if verbose:
            for line in (time_line(verdict), *coverage_lines(verdict.coverage), *verdict.notes):
                console.print(f"{name}: {line}", markup=False, highlight=False, soft_wrap=True)
        if verdict.ok and (verbose or len(verdicts) == 1) and (slow := slow_line(verdict)):
            console.print(f"{name}: {slow}", markup=False, highlight=False, soft_wrap=True)
        if verdict.ok and verbose and (pairs := pairs_line(*verdict.pairs)):
            console.print(f"{name}: {pairs}", markup=False, highlight=False)
        if verdict.ok and verbose and len(verdicts) > 1 and verdict.largest:
            console.print(f"{name}: {largest_line(verdict.largest)}", markup=False, highlight=False)
        if verdict.ok and verdict.hidden:
            hidden = ", ".join(verdict.hidden)
            console.print(f"not fuzzed, because {name} takes no argument for them: {hidden}", markup=False)
    if not verbose and len(verdicts) > 1 and (short := time_was_short([v for v in verdicts if v.ok])):
        console.print(f"{short} (-v says which)", markup=False, highlight=False, soft_wrap=True)
    print_failures(wrong, console, verbose=verbose)
    if not wrong and (largest := largest_among(v.largest for v in verdicts)):
        console.print(largest_line(largest), markup=False, highlight=False, soft_wrap=True)
    if len(verdicts) == 1 and not wrong and (pairs := pairs_line(*verdicts[0].pairs)) and not verbose:
        console.print(pairs, markup=False, highlight=False)
    several = sum(verdict.several_right for verdict in verdicts)
    if several:
        console.print(f"rows with several right answers, decided by rounding: {several}")
    comparisons = sum(verdict.comparisons for verdict in verdicts)
    result = disagreeing(wrong, verdicts) if wrong else "all agree"
    console.print(f"{result}: {counted(cases, 'case')}, {counted(comparisons, 'comparison')}")


def disagreeing(wrong: list[Verdict], verdicts: list[Verdict], tried: str = "") -> str:
    """Return in words how many kernels disagree."""
    ending = "s" if len(verdicts) == 1 else ""
    return f"{len(wrong)} of {counted(len(verdicts), 'kernel')}{tried} disagree{ending}"


def print_failures(verdicts: list[Verdict], console: Console, *, verbose: bool = False) -> None:
    """Print the report of each verdict. ``verbose``: with tracebacks."""
    for verdict in verdicts:
        console.print()
        console.print(explain(verdict, verbose=verbose), markup=False, highlight=False, soft_wrap=True)


def write_figures(verdicts: list[Verdict], file: Path, **run: Any) -> None:
    """Write machine, command and a record for each verdict. ``run``: further fields, such as the seed."""
    records = [
        {
            "kernel": verdict.target,
            "operation": verdict.operation,
            "dialect": verdict.dialect,
            **({"domain": verdict.domain} if verdict.domain else {}),
            "status": verdict.status,
            "checks": list(verdict.checks),
            "cases": verdict.cases,
            "comparisons": verdict.comparisons,
            **({"several_right": verdict.several_right} if verdict.several_right else {}),
            "seconds": round(verdict.seconds, 2),
            "spent": {part: round(seconds, 2) for part, seconds in verdict.spent.items()},
            **{name: getattr(verdict, name) for name in ("cut", "left_out", "not_tried")},
            "toured": verdict.toured,
            "largest": verdict.largest,
            "named": list(verdict.named),
            "pairs": {"seen": verdict.pairs[0], "of": verdict.pairs[1], "refused": verdict.pairs[2]},
            "coverage": [coverage_data(kernel) for kernel in verdict.coverage],
            "failure": None if verdict.failure is None else _record(verdict.failure),
        }
        for verdict in verdicts
    ]
    command = " ".join(["cumae", *sys.argv[1:]])
    write_json(file, {**machine(), "command": command, **run, "verdicts": records})


def _record(failure: Failure) -> dict[str, Any]:
    """Return the finding, its place, the case and the file as plain data."""
    finding = failure.finding
    place = place_of(failure.case, finding)
    tried = {"trace": trace_to_json(failure.trace)} if failure.trace else {"case": to_json(failure.case)}
    return {
        **asdict(finding),
        "request": place.request,
        "token": place.token,
        "found_after": failure.found_after,
        "stopped": failure.stopped,
        "file": None if failure.file is None else str(failure.file),
        **tried,
    }


def _print_shapes(shown: Counter[str], cases: int, console: Console) -> None:
    """Print the share of cases that show each shape, and name the shapes without a case."""
    cells = [f"{100 * shown[name] / max(cases, 1):5.1f}% {name}" for name in SHAPES if shown[name]]
    if cells:
        console.print("share of cases with each shape:")
        columns = max(1, console.width // (max(map(len, cells)) + 2))
        grid = Table.grid(padding=(0, 2))
        rows = -(-len(cells) // columns)
        for i in range(rows):
            grid.add_row(*(Text(cell, no_wrap=True) for cell in cells[i::rows]))
        console.print(grid)
    missing = [name for name in SHAPES if not shown[name]]
    if missing:
        console.print(f"shapes without a case: {'; '.join(missing)}", markup=False)
