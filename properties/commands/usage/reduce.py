"""How ``cumae reduce`` is called."""

from pathlib import Path
from typing import Any

import click

from cumae.properties.commands import options


@options.command("cumae reduce .cumae/failures/CASE.json")
@click.argument("file", type=click.Path(path_type=Path))
@options.target
@options.operation(options.OF_A_CASE)
@options.dialect(options.INSTEAD_OF_THE_FILES, default=None)
@options.device
@options.limit()
@click.option(
    "--out", type=click.Path(path_type=Path), help="The file to write, instead of FILE.reduced.json."
)
def reduce(**given: Any) -> int:
    """Write the smallest case that fails the same check as FILE.

    It runs on TARGET, or on the function that FILE names. FILE may also be the text cumae1:… of a report, or
    with --op and --dialect a dump of an engine's tensors, whose inputs TARGET gets. Kernels run in isolated
    processes. If the case agrees now, nothing is written and the exit status is 0.
    """
    from cumae.properties.commands.reduce import reduce as run

    return run(**given)
