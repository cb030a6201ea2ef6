"""``cumae replay``: run saved cases again (FIXED, FAILED or ERROR), and judge dumps of engine tensors."""

from dataclasses import replace
from pathlib import Path

import click

from cumae.properties.commands.progress import INTERRUPTED, telling
from cumae.properties.commands.results import fitted_report
from cumae.properties.commands.sources import dialect_of_dump, holds_tensors, job_of, load_source
from cumae.properties.dialects.dump import Contradiction, foreign_names
from cumae.properties.dialects.dump_file import read_dump
from cumae.properties.results.case_text import shortened
from cumae.properties.results.counting import counted
from cumae.properties.results.failure_file import Saved, code_of, save_or_note
from cumae.properties.results.verdict import Failure, Verdict
from cumae.properties.results.writable import require_folder
from cumae.properties.running.device import Device, prepare
from cumae.properties.search.isolated import search_isolated

UNCHANGED = "; its file has not changed since: if nothing else has, it fails only after other cases"
CONTRADICTION = """\
    No step has these inputs. If they were captured at one moment, the engine gave them to its kernels, and
    that is a bug. If they were captured at different moments, capture them together."""


def replay(
    files: tuple[Path, ...],
    target: str | None,
    operation: str | None,
    dialect: str | None,
    device: str,
    isolate: bool | None,
    limit: float,
    failures: Path,
    verbose: bool,
) -> int:
    """Run saved cases again: FIXED if they agree now, FAILED if not."""
    chosen = prepare(device)
    status = 0
    for file in files:
        try:
            if holds_tensors(file) and target is None:
                status = max(status, _judge(file, dialect_of_dump(file, dialect), operation, failures))
                continue
            saved = load_source(file, target, operation, dialect)
            verdict = _run_again(saved, target, chosen, isolate, limit)
        except Contradiction as error:
            status = max(status, 1)
            click.echo(f"FAILED {file}: the inputs contradict each other\n    {error}\n{CONTRADICTION}")
            continue
        except ValueError as error:
            where = f"{file}: " if len(files) > 1 and str(file) not in str(error) else ""
            click.echo(f"ERROR  {where}{error}", err=True)
            status = 2
            continue
        except KeyboardInterrupt:
            done = f"{files.index(file)} of {counted(len(files), 'file')} replayed"
            click.echo(f"interrupted in {file}: {done}")
            return INTERRUPTED
        if verdict.failure is None:
            compared = counted(verdict.comparisons, "comparison")
            unchanged = saved.code and saved.target == verdict.target and saved.code == code_of(verdict)
            why = UNCHANGED if unchanged else ""
            click.echo(f"FIXED  {shortened(file)}: {verdict.operation}, {compared}{why}")
        else:
            status = max(status, 1)
            failure = verdict.failure if target else _with_promises_of(saved, verdict.failure)
            verdict.failure = replace(failure, found_after=0)
            click.echo(f"FAILED {shortened(file)}")
            click.echo(fitted_report(verdict, verbose=verbose))
    return status


def _run_again(
    saved: Saved, target: str | None, device: Device, isolate: bool | None, limit: float
) -> Verdict:
    """Return the verdict on a saved case; a dump without a target is judged, not run.

    If ``isolate`` is None, a case is isolated if a target is given or if it ended its process. A finding of a
    sanitizer always is.
    """
    if saved.answer and target is None:
        return _judged_again(saved)
    isolated = target is not None or saved.finding.ended if isolate is None else isolate
    return _replayed(saved, device, limit, isolated=isolated or bool(saved.finding.sanitizer))


def _with_promises_of(saved: Saved, failure: Failure) -> Failure:
    """Return a failure; if it is the saved one, it names the promises of the search, which saw more."""
    if (failure.finding.check, failure.tried) != (saved.finding.check, saved.tried):
        return failure
    return replace(failure, finding=replace(failure.finding, left_out_by=saved.finding.left_out_by))


def _judge(file: Path, dialect: str, operation: str | None, failures: Path) -> int:
    """Judge the outputs of each operation in a dump, save what is wrong, and return the exit status."""
    from cumae.properties.comparing.judge_dump import (  # imports torch, which takes a second
        judge_dump,
        not_judged,
    )

    if foreign := foreign_names(read_dump(file), dialect):
        click.echo(f"ignored, not names of {dialect}: {', '.join(foreign)}")
    status = 0
    for verdict in judge_dump(file, dialect, operation):
        if verdict.failure is None:
            elements = counted(verdict.comparisons, "element")
            click.echo(f"AGREES {file}: {verdict.operation}, {elements} compared")
        else:
            status = 1
            require_folder("--failures", failures)
            verdict.failure = save_or_note(failures, verdict, verdict.failure)
            click.echo(f"FAILED {file}")
            click.echo(fitted_report(verdict))
        for note in verdict.notes:
            click.echo(f"    {note}")
    for name in not_judged(file, dialect):
        click.echo(f"not judged: {name}, because a dump does not determine it")
    return status


def _judged_again(saved: Saved) -> Verdict:
    """Return the verdict on the outputs of a dump that was saved."""
    from cumae.properties.comparing.judge_dump import judge_saved  # imports torch, which takes a second

    return judge_saved(saved)


def _replayed(saved: Saved, device: Device, limit: float, *, isolated: bool) -> Verdict:
    """Return the verdict of the target on the saved case, with every check."""
    job = job_of(saved, device, limit)
    if isolated:
        with telling(f"replaying on {saved.target}") as tell:
            return search_isolated(job, lambda verdict: tell(counted(verdict.comparisons, "comparison")))
    from cumae.properties.search.direct import search_here  # imports torch, which takes a second

    return search_here(job)
