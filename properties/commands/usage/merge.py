"""How ``cumae merge`` is called."""

from pathlib import Path
from typing import Any

import click

from cumae.properties.commands import options
from cumae.properties.commands.json_file import json_file


@options.command("cumae merge runs/*.json")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@json_file("the merged verdicts")
def merge(**given: Any) -> int:
    """Merge the JSON files of several runs of `cumae fuzz`.

    FILES are what `cumae fuzz --json FILE` wrote in runs with different shards or seeds. A function agrees
    if a run has compared something and no run disagrees. A run that is given twice is an error, as is a
    shard without a whole run: the runs together are then not what was asked for.
    """
    from cumae.properties.commands.merge import merge as run

    return run(**given)
