"""``cumae replay``: saved cases again, FIXED, FAILED or ERROR for each; dumps of an engine's tensors."""

from dataclasses import replace
from pathlib import Path

import click

from cumae.oracle.model.rules import require
from cumae.properties.commands.fuzz import check_names, parse_limit
from cumae.properties.dialects.dump import case_of, is_dump, read_dump
from cumae.properties.results.counting import counted
from cumae.properties.results.explain import explain
from cumae.properties.results.failure_file import UNKNOWN, Saved, load_case
from cumae.properties.results.verdict import Verdict
from cumae.properties.running.device import DEVICES, Device, prepare
from cumae.properties.search.budget import Budget
from cumae.properties.search.isolation import LIMIT_SECONDS
from cumae.properties.search.worker import Job, ended, search_apart


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--target", help="module:function to try instead of the one in the file.")
@click.option("--op", "operation", help="The operation, for a file that holds only a case.")
@click.option("--dialect", help="How the target names its arguments, instead of what the file says.")
@click.option("--device", type=click.Choice(DEVICES), default="auto", show_default=True)
@click.option("--isolate/--no-isolate", default=None, help="In a process of its own; --target is by default.")
@click.option("--limit", type=float, default=LIMIT_SECONDS, show_default=True, help="Seconds it may take.")
@click.option("--verbose", "-v", is_flag=True, help="Print whole tracebacks too.")
def replay(
    files: tuple[Path, ...],
    target: str | None,
    operation: str | None,
    dialect: str | None,
    device: str,
    isolate: bool | None,
    limit: float,
    verbose: bool,
) -> int:
    """Run each saved case again: FIXED when it agrees now, FAILED with the report when it does not.

    With --dialect a FILE may also be a dump of an engine's tensors by name (.json, .npz, .pt): the outputs
    in it are judged, AGREES or FAILED, or with --target a function is run on its inputs.
    A file that cannot be run is an ERROR; the others run all the same.
    """
    parse_limit(limit)
    check_names(operation, dialect)
    chosen = prepare(device)
    status = 0
    for file in files:
        try:
            if is_dump(file):
                require(dialect is not None, "--dialect", dialect, f"be given: {file} holds tensors by name")
                assert dialect is not None
                if target is None:
                    status = max(status, _judge(file, dialect, operation))
                    continue
                require(operation is not None, "--op", operation, "be given: a dump does not say")
                saved = Saved(case_of(read_dump(file), dialect), str(operation), dialect, target, UNKNOWN)
            else:
                saved = load_case(file, target, operation, dialect)
            # A case that ended its process once is not run in this one, nor what a sanitizer found.
            apart = target is not None or ended(saved.finding.message) if isolate is None else isolate
            apart = apart or bool(saved.finding.sanitizer)
            verdict = replayed_apart(saved, chosen, limit) if apart else _replayed(file, saved, chosen)
        except ValueError as error:
            click.echo(f"ERROR  {error}", err=True)
            status = 2
            continue
        if verdict.failure is None:
            click.echo(f"FIXED  {file}: {verdict.operation}, {counted(verdict.comparisons, 'comparison')}")
        else:
            status = max(status, 1)
            verdict.failure = replace(verdict.failure, found_after=0)
            click.echo(f"FAILED {file}")
            click.echo(explain(verdict, verbose=verbose))
    return status


def _judge(file: Path, dialect: str, operation: str | None) -> int:
    """Say of each operation that a dump shows whether its outputs are right; return the exit status."""
    from cumae.properties.comparing.judge_dump import (  # imports torch, which takes a second
        judge_dump,
        not_judged,
    )

    status = 0
    for verdict in judge_dump(file, dialect, operation):
        if verdict.failure is None:
            elements = counted(verdict.comparisons, "element")
            click.echo(f"AGREES {file}: {verdict.operation}, {elements} compared")
        else:
            status = 1
            click.echo(f"FAILED {file}")
            click.echo(explain(verdict))
    for name in not_judged(file, dialect):
        click.echo(f"not judged: {name}, which follows from more than a dump says")
    return status


def replayed_apart(saved: Saved, device: Device, limit: float) -> Verdict:
    """Return the verdict of the target on the saved case, run in a process of its own."""
    return search_apart(
        Job(
            target=saved.target,
            operation=saved.operation,
            dialect=saved.dialect,
            device=device,
            limit=limit,
            budget=Budget(examples=0),
            cases=(saved.tried,),
            reduce=False,
            sanitizer=saved.finding.sanitizer,
        )
    )


def _replayed(file: Path, saved: Saved, device: Device) -> Verdict:
    from cumae.properties.search.in_process import replayed_here  # imports torch, which takes a second

    return replayed_here(file, saved, device)
