"""``cumae merge``: one verdict for runs of ``cumae fuzz`` on several machines."""

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import click
from rich.console import Console
from rich.table import Column, Table

from cumae.oracle.model.case_json import read_file
from cumae.oracle.model.rules import require, require_choice
from cumae.properties.commands.json_file import write_json
from cumae.properties.commands.values import parse_shard
from cumae.properties.results.counting import counted
from cumae.properties.results.verdict import Status

Record = dict[str, Any]
Runs = Mapping[Path, Record]
_STATUSES = get_args(Status)


def merge(files: tuple[Path, ...], file: Path | None) -> int:
    """Merge the records of runs into one verdict."""
    for one in files:
        require(files.count(one) == 1, "FILE", str(one), "be given once")
    runs = {one: _run(one) for one in files}
    _require_different(runs)
    merged, missing = _merged(runs), _missing(runs)
    wrong = [one for one in merged if one["status"] != "agrees"]
    _print(merged)
    result = "nothing compared" if not merged else "no verdict" if missing else "all agree"
    if wrong:
        ending = "s" if len(merged) == 1 else ""
        result = f"{len(wrong)} of {counted(len(merged), 'kernel')} disagree{ending}"
    cases, comparisons = (sum(one[name] for one in merged) for name in ("cases", "comparisons"))
    counts = f"{counted(cases, 'case')}, {counted(comparisons, 'comparison')} in {counted(len(runs), 'run')}"
    click.echo(f"{result}: {counts}")
    if file is not None:
        told = {"runs": [str(one) for one in runs], "missing": missing, "verdicts": merged}
        write_json(file, told)
    if missing:
        told_missing = f"shards = {', '.join(missing)}, must have a whole run each: this is a part of the run"
        click.echo(f"cumae: {told_missing}", err=True)
    return 1 if wrong or not merged else 2 if missing else 0


def _run(file: Path) -> Record:
    """Return the record of a run. Raises ``ValueError`` naming field, value and rule."""
    run = read_file(file)
    if not isinstance(run, dict) or not isinstance(run.get("verdicts"), list):
        raise ValueError(f"{file}: file, must hold what `cumae fuzz --json` writes")
    require(type(run.get("seed")) is int, f"{file}: seed", run.get("seed"), "be an integer")
    require(isinstance(run.get("shard"), str), f"{file}: shard", run.get("shard"), "be i/n")
    parse_shard(run["shard"], f"{file}: shard")
    for i, verdict in enumerate(run["verdicts"]):
        where = f"{file}: verdicts[{i}]"
        require(isinstance(verdict, dict), where, verdict, "be an object")
        for name in ("kernel", "operation", "dialect"):
            require(isinstance(verdict.get(name), str), f"{where}.{name}", verdict.get(name), "be a string")
        require_choice(f"{where}.status", verdict.get("status"), _STATUSES)
        for name in ("cases", "comparisons", "seconds"):
            number = verdict.get(name)
            require(type(number) in (int, float), f"{where}.{name}", number, "be a number")
        failure, disagrees = verdict.get("failure"), verdict["status"] == "disagrees"
        rule = "be an object if the function disagrees, else null"
        require(
            isinstance(failure, dict) if disagrees else failure is None, f"{where}.failure", failure, rule
        )
    return run


def _key(verdict: Record) -> tuple[str, str, str, str]:
    return verdict["kernel"], verdict["operation"], verdict["dialect"], verdict.get("domain", "")


def _require_different(runs: Runs) -> None:
    """Raise ``ValueError`` if two runs drew the same cases for a function."""
    known: dict[tuple[object, ...], Path] = {}
    for file, run in runs.items():
        for verdict in run["verdicts"]:
            other = known.setdefault((*_key(verdict), run["seed"], run["shard"]), file)
            rule = f"differ from that of {other}, or the same cases count twice"
            require(other == file, f"{file}: shard", run["shard"], rule)


def _missing(runs: Runs) -> list[str]:
    """Return the shards without a whole run, for each seed and number of shards that a run has."""
    given: dict[tuple[int, int], set[int]] = defaultdict(set)
    for run in runs.values():
        index, count = parse_shard(run["shard"])
        given[run["seed"], count].update([] if run.get("interrupted") else [index])
    return [
        f"{index}/{count} of seed {seed}"
        for (seed, count), there in given.items()
        for index in range(1, count + 1)
        if index not in there
    ]


def _merged(runs: Runs) -> list[Record]:
    """Return a record for each function: the sums of its runs, and the failure of each that disagrees."""
    merged: dict[tuple[str, ...], Record] = {}
    for file, run in runs.items():
        for verdict in run["verdicts"]:
            names = dict(zip(("kernel", "operation", "dialect", "domain"), _key(verdict), strict=True))
            empty = {**names, "status": "", "cases": 0, "comparisons": 0, "seconds": 0.0, "failures": []}
            one = merged.setdefault(_key(verdict), empty)
            for name in ("cases", "comparisons", "seconds"):
                one[name] += verdict[name]
            if verdict["failure"] is not None:
                one["failures"].append({"run": str(file), **verdict["failure"]})
    for one in merged.values():
        status: Status = "agrees" if one["comparisons"] else "nothing compared"
        one["status"] = "disagrees" if one["failures"] else status
    return list(merged.values())


def _print(merged: list[Record]) -> None:
    """Print a row for each function, and a line for each finding."""
    table = Table(Column("kernel", no_wrap=True), "verdict", "cases", "comparisons", "seconds")
    for one in merged:
        counts = (str(one["cases"]), str(one["comparisons"]), f"{one['seconds']:.1f}")
        table.add_row(one["kernel"].rpartition(":")[2], one["status"], *counts)
    Console().print(table)
    for one in merged:
        for failure in one["failures"]:
            told = f"{one['kernel']}: {failure.get('check')}: {failure.get('message')}"
            click.echo(f"{told}\n  found by {failure['run']}, saved: {failure.get('file')}")
