"""``cumae replay``: saved cases again, FIXED, FAILED or ERROR for each."""

from pathlib import Path

import click

from cumae.properties.conformance import binding_of
from cumae.properties.failure_file import load_failure
from cumae.properties.reports.explain import explain
from cumae.properties.running.device import DEVICES, Device, prepare
from cumae.properties.search import Budget, search
from cumae.properties.targets import load_function
from cumae.properties.verdict import Verdict


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--target", help="module:function to try instead of the one in the file.")
@click.option("--device", type=click.Choice(DEVICES), default="auto", show_default=True)
def replay(files: tuple[Path, ...], target: str | None, device: str) -> int:
    """Run each saved case again: FIXED when it agrees now, FAILED with the report when it does not.

    A file that cannot be run is an ERROR; the others run all the same.
    """
    chosen = prepare(device)
    status = 0
    for file in files:
        try:
            verdict = replayed(file, target, chosen)
        except ValueError as error:
            click.echo(f"ERROR  {error}", err=True)
            status = 2
            continue
        if verdict.failure is None:
            click.echo(f"FIXED  {file}: {verdict.operation}, {verdict.comparisons} comparisons")
        else:
            status = max(status, 1)
            click.echo(f"FAILED {file}")
            click.echo(explain(verdict))
    return status


def replayed(file: Path, target: str | None, device: Device) -> Verdict:
    """Return the verdict of a target, or of the one in the file, on the file's case and every check."""
    saved = load_failure(file)
    binding = binding_of(load_function(target or saved.target), saved.operation, saved.dialect)
    reason = binding.why_not(saved.case)
    if reason is not None:
        raise ValueError(f"{file}: case, must be within what {binding.name} promises: it varies {reason}")
    return search(binding, device, Budget(examples=0), first=[saved.case], reduce=False)
