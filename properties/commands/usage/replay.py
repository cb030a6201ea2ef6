"""How ``cumae replay`` is called."""

from pathlib import Path
from typing import Any

import click

from cumae.properties.commands import options


@options.command("cumae replay .cumae/failures/*.json", "cumae replay step.pt --dialect sglang")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--target", help="module:function or file.py:function to run instead of the one in the file.")
@options.operation(options.OF_A_CASE)
@options.dialect(options.INSTEAD_OF_THE_FILES, default=None)
@options.device
@options.isolate("Run in an isolated process; the default with --target.")
@options.limit()
@options.failures
@options.verbose("Print whole tracebacks too.")
def replay(**given: Any) -> int:
    """Run saved cases again: FIXED if they agree now, FAILED if not.

    FILE may also be the text cumae1:… at the end of a report. With --dialect it may be a dump of an engine's
    tensors by name (.json, .npz, .pt): its outputs are judged, AGREES or FAILED, and a failure is saved as a
    case; with --target a function runs on its inputs instead.
    A file that cannot be run is an ERROR; the other files still run.
    """
    from cumae.properties.commands.replay import replay as run

    return run(**given)
