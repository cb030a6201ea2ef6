"""Print and write the verdicts of a run."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from cumae.oracle import to_json, trace_to_json
from cumae.properties.cases.shapes import SHAPES
from cumae.properties.commands.json_file import write_measured
from cumae.properties.results.counting import counted
from cumae.properties.results.coverage import coverage_data, coverage_lines
from cumae.properties.results.explain import (
    printed_lines,
    report_lines,
    slow_line,
    time_line,
    time_was_short,
    unpassed_lines,
)
from cumae.properties.results.fitted import fitted, fitted_line, terminal_width
from cumae.properties.results.marks import place_of
from cumae.properties.results.reach import largest_among, largest_line, pairs_line
from cumae.properties.results.verdict import Failure, Verdict

WIDE = 80
"""Columns of a terminal that has room for whole tables and bars."""


def print_verdicts(verdicts: list[Verdict], console: Console, *, verbose: bool = False) -> None:
    """Print the result as one line, a row for each verdict, each failure, and how far the search went.

    ``verbose``: also the share of cases with each shape, where the time of each went, what its kernels were
    not asked, and tracebacks.
    """
    cases = sum(verdict.cases for verdict in verdicts)
    wrong = [verdict for verdict in verdicts if not verdict.ok]
    comparisons = sum(verdict.comparisons for verdict in verdicts)
    result = disagreeing(wrong, verdicts) if wrong else "all agree"
    counts = f"{counted(cases, 'case')}, {counted(comparisons, 'comparison')}"
    _tell(f"{result}: {counts}", console)
    console.print(_table(verdicts, console.width))
    alone = len(verdicts) == 1
    for verdict in verdicts:
        name = verdict.target.split(":")[-1]
        told = [time_line(verdict), *coverage_lines(verdict.coverage)] if verbose else []
        if alone or verbose:
            told += verdict.notes
        if verdict.ok:
            told += _told_of_right(verdict, alone=alone, verbose=verbose)
        for line in told:
            _tell(f"{name}: {line}", console)
        if verdict.ok and verdict.printed and (alone or verbose):
            console.print(
                f"{name} {printed_lines(verdict.printed)}", markup=False, highlight=False, soft_wrap=True
            )
        if verdict.ok and verdict.hidden:
            hidden = ", ".join(verdict.hidden)
            where = f"no argument of {name} shows them in dialect {verdict.dialect}"
            _tell(f"not fuzzed, because {where}: {hidden}", console)
    if not verbose and len(verdicts) > 1 and (short := time_was_short([v for v in verdicts if v.ok])):
        _tell(f"{short} (-v says which)", console)
    print_failures(wrong, console, verbose=verbose)
    if wrong:  # how far the search went would bury the failures
        return
    if largest := largest_among(_shown_sizes(verdict, verbose=verbose) for verdict in verdicts):
        _tell(largest_line(largest), console)
    if len(verdicts) == 1 and (pairs := pairs_line(*verdicts[0].pairs)) and not verbose:
        _tell(pairs, console)
    several = sum(verdict.several_right for verdict in verdicts)
    if several:
        console.print(f"rows with several right answers, decided by rounding: {several}")
    _print_shapes(verdicts, cases, console, verbose=verbose)


def _told_of_right(verdict: Verdict, *, alone: bool, verbose: bool) -> Iterator[str]:
    """Yield what is told of a function that agrees, beside the notes on any: more of one that is alone."""
    if (alone or verbose) and (slow := slow_line(verdict)):
        yield slow
    if verbose and (pairs := pairs_line(*verdict.pairs)):
        yield pairs
    if verbose and not alone and verdict.largest:
        yield largest_line(verdict.largest)
    if alone or verbose:
        yield from unpassed_lines(verdict)


def print_interrupted(verdicts: list[Verdict], console: Console, *, verbose: bool = False) -> None:
    """Print how many cases agreed before the interruption, and each failure with its file."""
    found = [verdict for verdict in verdicts if verdict.failure is not None]
    agreed = sum(verdict.cases - (verdict.failure is not None) for verdict in verdicts)
    told = f"interrupted: {disagreeing(found, verdicts, ' tried')}; {counted(agreed, 'case')} agreed"
    _tell(told, console)
    print_failures(found, console, verbose=verbose)
    for verdict in found:
        if verdict.failure is not None and verdict.failure.file is not None:
            console.print(f"saved: {verdict.failure.file}", markup=False, highlight=False, soft_wrap=True)


def _tell(text: str, console: Console) -> None:
    """Print text, broken to the width of the terminal, if there is one."""
    console.print(fitted(text, terminal_width()), markup=False, highlight=False, soft_wrap=True)


def _table(verdicts: list[Verdict], width: int) -> Table:
    """Return a row for each verdict; a narrow terminal gets the first columns, each whole."""
    rows = [
        (
            verdict.target.split(":")[-1],
            verdict.status,
            str(verdict.cases),
            f"{verdict.seconds:.1f}",
            str(verdict.comparisons),
            f"{verdict.cases / verdict.seconds if verdict.seconds else 0.0:.0f}",
        )
        for verdict in verdicts
    ]
    names = ("kernel", "verdict", "cases", "seconds", "comparisons", "cases/s")
    shown = len(names) if width >= WIDE else 4
    columns = [Column("kernel", overflow="fold"), *(Column(name, no_wrap=True) for name in names[1:shown])]
    table = Table(*columns, box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for row in rows:
        table.add_row(*row[:shown])
    return table


def _shown_sizes(verdict: Verdict, *, verbose: bool) -> dict[str, int]:
    return {name: size for name, size in verdict.largest.items() if verbose or name in verdict.shows}


def disagreeing(wrong: list[Verdict], verdicts: list[Verdict], tried: str = "") -> str:
    """Return in words how many kernels disagree, or of how many nothing was compared."""
    ending = "s" if len(verdicts) == 1 else ""
    of_all, empty = f"of {counted(len(verdicts), 'kernel')}{tried}", sum(one.failure is None for one in wrong)
    if empty and empty == len(wrong):
        return f"nothing compared for {empty} {of_all}"
    return f"{len(wrong) - empty} {of_all} disagree{ending}" + (f", {empty} not compared" if empty else "")


def print_failures(verdicts: list[Verdict], console: Console, *, verbose: bool = False) -> None:
    """Print the report of each verdict. ``verbose``: with tracebacks."""
    for verdict in verdicts:
        console.print()
        report = fitted_report(verdict, verbose=verbose)
        console.print(report, markup=False, highlight=False, soft_wrap=True)


def fitted_report(verdict: Verdict, *, verbose: bool = False, again: Sequence[str] | None = None) -> str:
    """Return what ``explain`` returns, broken to the width of the terminal, if there is one."""
    lines, width = report_lines(verdict, verbose=verbose, again=again), terminal_width()
    return "\n".join(fitted_line(line, width) for line in lines)


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
    write_measured(file, **run, verdicts=records)


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


def _print_shapes(verdicts: list[Verdict], cases: int, console: Console, *, verbose: bool) -> None:
    """Print how many of the shapes that the functions can show were shown, and those without a case.

    ``verbose``: also the share of cases with each of them, and the shapes that no function here can show.
    """
    shown: Counter[str] = Counter()
    for verdict in verdicts:
        shown.update(verdict.shapes)
    able = frozenset[str]().union(*(verdict.shows for verdict in verdicts))
    if verbose:
        _print_shares(
            [f"{100 * shown[name] / max(cases, 1):5.1f}% {name}" for name in SHAPES if shown[name]], console
        )
        others = "; ".join(name for name in SHAPES if name not in able)
        _tell(f"shapes that make no difference here: {others or 'none'}", console)
    wanted = [name for name in SHAPES if name in able]
    missing = [name for name in wanted if not shown[name]]
    told = f"shapes of batches: {len(wanted) - len(missing):,} of {len(wanted):,} tried"
    told += f"; without a case: {'; '.join(missing)}" if missing else ""
    _tell(told, console)


def _print_shares(cells: list[str], console: Console) -> None:
    """Print the share of cases that show each shape, in columns."""
    if not cells:
        return
    console.print("share of cases with each shape:")
    columns = max(1, console.width // (max(map(len, cells)) + 2))
    grid = Table.grid(padding=(0, 2))
    rows = -(-len(cells) // columns)
    for i in range(rows):
        grid.add_row(*(Text(cell, no_wrap=True) for cell in cells[i::rows]))
    console.print(grid)
