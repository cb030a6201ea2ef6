"""``cumae replay``: saved cases again, FIXED, FAILED or ERROR for each."""

from pathlib import Path

import click

from cumae.properties.conformance import binding_of
from cumae.properties.failure_file import Saved, load_failure
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
    """Run each saved case again: FIXED when it agrees now, FAILED with the report when it does not."""
    saved = [(file, load_failure(file)) for file in files]
    chosen = prepare(device)
    status = 0
    for file, found in saved:
        verdict = replayed(found, target or found.target, chosen)
        if verdict.failure is None:
            click.echo(f"FIXED  {file}: {found.operation}, {verdict.comparisons} comparisons")
        else:
            status = 1
            click.echo(f"FAILED {file}")
            click.echo(explain(verdict))
    return status


def replayed(saved: Saved, target: str, device: Device) -> Verdict:
    """Return the verdict of a target on one saved case, with every check, the saved one first."""
    binding = binding_of(load_function(target), saved.operation, saved.dialect)
    reason = binding.domain.why_not(saved.case)
    if reason is not None:
        raise ValueError(f"case = {reason}, must lie in the domain of {target}")
    return search(binding, device, Budget(examples=1), first=[saved.case])
