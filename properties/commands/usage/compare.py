"""How ``cumae compare`` is called."""

from pathlib import Path
from typing import Any

import click

from cumae.properties.commands import options


@options.command(
    "cumae compare old.py:slots new.py:slots --op slot_mapping --dialect vllm",
    "cumae compare --base main kernels.py:slots --op slot_mapping --dialect vllm",
)
@click.argument("targets", nargs=-1, required=True, metavar="BASE CANDIDATE | TARGET")
@click.option("--base", help="The version of TARGET to compare with: a git revision, a folder or a wheel.")
@click.option("--candidate", help="The version to compare, as --base; default is the working tree.")
@click.option(
    "--repo",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=Path(),
    help="The git repository of the revisions; default is that of the current folder.",
)
@options.operation("The operation that both compute; an adapter or a test under conforms_to brings its own.")
@options.dialect("How both functions name their arguments.")
@options.cases("Cases beyond the fixtures and chosen sizes.", default=200)
@click.option(
    "--case",
    "file",
    type=click.Path(path_type=Path),
    help="Compare only on the case in this file, or in the text cumae1:… of a report.",
)
@options.seed
@options.device
@options.failures
@click.option(
    "--speed/--no-speed", default=None, help="Time both if they agree; the default on a GPU and with --base."
)
def compare(**given: Any) -> int:
    """Compare the outputs of CANDIDATE and BASE bit for bit. Each is module:function or file.py:function.

    With --base, compare two versions of TARGET, path/in/tree.py:function or vllm:NAME of an adapter. Both are
    taken from their source trees, which need not be installed and are not changed.

    Compares whole buffers. Prints the first difference and saves its case. If there is none, prints the
    ratio of their times in alternating calls. On a CPU the interpreter says little about a GPU.
    """
    from cumae.properties.commands.compare import compare as run

    return run(**given)
