"""``cumae mutate``: inject faults into kernels and oracles, and report those that survive."""

import json
import time
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column, Table

from cumae.oracle.model.rules import require
from cumae.properties.commands.json_file import STDOUT, write_json
from cumae.properties.commands.progress import INTERRUPTED, log_lines
from cumae.properties.faults.judges import How, Target, Task, judged, tasks_of
from cumae.properties.faults.outcome import STATUSES, Outcome
from cumae.properties.faults.scope import taken_by
from cumae.properties.operations import OPERATIONS, shipped_kernels
from cumae.properties.operations.binding import binding_of
from cumae.properties.operations.targets import load_function, taken_because
from cumae.properties.results.counting import counted
from cumae.properties.running.device import prepare
from cumae.properties.running.machine import machine

KEPT_SECONDS = 10.0
"""Seconds between two writes of the JSON file."""


def mutate(
    target: str | None,
    operation: str | None,
    dialect: str,
    oracles: bool,
    device: str,
    jobs: int,
    checks: tuple[str, ...],
    cases: int,
    limit: float,
    file: Path | None,
    resume: bool,
) -> int:
    """Inject faults into TARGET, one at a time; without TARGET, into every shipped kernel."""
    require(file not in (None, STDOUT) or not resume, "--resume", resume, "be left out without --json FILE")
    how = How(prepare(device), limit, cases, checks or None)
    targets = _targets(target, operation, dialect, oracles=oracles)
    tasks = tasks_of(targets)
    console = Console()
    run = _Run(tasks, *(_known(tasks, file) if resume and file else ({}, 0.0)), jobs, file)
    known = f", {len(run.outcomes)} of them known" if resume else ""
    console.print(f"{counted(len(tasks), 'mutant')} of {counted(len(targets), 'target')}{known}")
    if target is not None and (taken := taken_by(load_function(target))):
        console.print(f"not mutated, because it is taken: {', '.join(taken)}")
    seconds, is_complete = _judge(run, how, console)
    if not is_complete:
        console.print(f"interrupted: {len(run.outcomes)} of {counted(len(tasks), 'mutant')} judged")
    survivors = _print(tasks, run.outcomes, console)
    console.print(f"{seconds:.0f} s in {counted(jobs, 'job')}")
    run.write(seconds)
    if not is_complete:
        return INTERRUPTED
    return 1 if survivors else 0


@dataclass(slots=True)
class _Run:
    """The outcomes so far, by the number of their task. ``before``: process seconds of what it resumes."""

    tasks: list[Task]
    outcomes: dict[int, Outcome]
    before: float
    jobs: int
    file: Path | None

    def write(self, seconds: float) -> None:
        """Write the outcomes after so many seconds, if a file is asked for."""
        if self.file is not None:
            _write(self.tasks, self.outcomes, self.before + seconds * self.jobs, self.file)

    def told(self) -> str:
        """Return how many are judged."""
        return f"{len(self.outcomes)} of {len(self.tasks)} judged"


def _judge(run: _Run, how: How, console: Console) -> tuple[float, bool]:
    """Judge the mutants that are left; return the seconds that took, and whether all were judged."""
    left = [i for i in range(len(run.tasks)) if i not in run.outcomes]
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TextColumn("{task.completed}/{task.total}"),
    )
    tell = log_lines("mutate", unless=console.is_terminal)
    is_complete, kept_at = True, time.monotonic()
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
        bar = progress.add_task("", total=None)

        def stage(name: str, size: int, done: int) -> None:
            progress.update(bar, description=name, total=size, completed=done)
            tell(f"{run.told()}; {name}" + f", {done} of {size} done" * (done > 0))

        try:
            for number, outcome in judged([run.tasks[i] for i in left], how, run.jobs, stage) if left else ():
                run.outcomes[left[number]] = outcome
                progress.advance(bar)
                tell(f"{run.told()}; {progress.tasks[0].description}")
                if run.file not in (None, STDOUT) and time.monotonic() > kept_at + KEPT_SECONDS:
                    kept_at = time.monotonic()
                    with suppress(ValueError):  # the last write reports the error
                        run.write(progress.tasks[0].elapsed or 0.0)
        except KeyboardInterrupt:
            is_complete = False
        return progress.tasks[0].elapsed or 0.0, is_complete


def _targets(target: str | None, operation: str | None, dialect: str, *, oracles: bool) -> list[Target]:
    if target is None and oracles:
        names = [name for name in OPERATIONS if operation in (None, name)]
        return [Target(f"cumae.oracle:{name}") for name in names]
    if target is None:
        return [Target(kernel, name) for kernel, name in shipped_kernels(operation)]
    because = taken_because(target)
    require(not because, "target", target, f"be importable to be mutated: {because}")
    function = load_function(target)
    if any(function is known.oracle for known in OPERATIONS.values()):
        return [Target(target)]
    binding = binding_of(function, operation, dialect)
    return [Target(target, binding.operation.name, binding.dialect.name)]


def _print(tasks: list[Task], outcomes: dict[int, Outcome], console: Console) -> int:
    """Print a row for each target and each survivor; return the number of survivors."""
    table = Table(Column("target", no_wrap=True), "mutants", *STATUSES)
    for target in dict.fromkeys(task.targets[0] for task in tasks):  # shared: in the first only
        statuses = Counter(one.status for i, one in outcomes.items() if tasks[i].targets[0] == target)
        cells = [str(statuses[status]) for status in STATUSES]
        table.add_row(target.name.rpartition(":")[2], str(sum(statuses.values())), *cells)
    totals = Counter(outcome.status for outcome in outcomes.values())
    table.add_section()
    table.add_row("all", str(len(tasks)), *(str(totals[status]) for status in STATUSES))
    survivors = [i for i in sorted(outcomes) if outcomes[i].status == "survived"]
    for i in survivors:
        mutant = tasks[i].mutant
        place = f"{mutant.module}:{mutant.line}, {mutant.function}: {mutant.operator}"
        text = f"survived: {place}\n{mutant.diff}\n{outcomes[i].message}\n"
        console.print(text, markup=False, highlight=False, soft_wrap=True)
    console.print(table)
    killers = Counter(outcome.by for outcome in outcomes.values() if outcome.status == "killed")
    if killers:
        by = ", ".join(f"{name} {count}" for name, count in killers.most_common())
        console.print(f"killed by: {by}", markup=False, highlight=False)
    for said in sorted({o.by for o in outcomes.values() if o.status == "equal on the small domain"}):
        console.print(f"small domain: {said}", markup=False, highlight=False)
    return len(survivors)


def _named(task: Task) -> dict[str, Any]:
    """Return a key that identifies a mutant."""
    names = ("module", "function", "line", "operator", "before", "after")
    return {name: getattr(task.mutant, name) for name in names}


def _known(tasks: list[Task], file: Path) -> tuple[dict[int, Outcome], float]:
    """Return the outcomes of a JSON file, except survivors, and the process seconds spent."""
    if not file.exists():
        return {}, 0.0
    run = json.loads(file.read_text())
    found = {
        json.dumps([record[name] for name in _named(tasks[0])]): Outcome(
            **{field.name: record[field.name] for field in fields(Outcome)}
        )
        for record in run["mutants"]
        if record["status"] != "survived"
    }
    keys = (json.dumps(list(_named(task).values())) for task in tasks)
    return {i: found[key] for i, key in enumerate(keys) if key in found}, run["process_seconds"]


def _write(tasks: list[Task], outcomes: dict[int, Outcome], seconds: float, file: Path) -> None:
    """Write the outcome of every mutant judged so far, the machine, and the process seconds spent."""
    records = [
        {"targets": [target.name for target in task.targets], **_named(task), **asdict(outcomes[i])}
        for i, task in enumerate(tasks)
        if i in outcomes
    ]
    numbers = {"process_seconds": round(seconds, 1), "generated": len(tasks)}
    content = {**machine(), **numbers, "mutants": records}
    write_json(file, content)
