"""How ``cumae mutate`` is called."""

from typing import Any

import click

from cumae.properties.commands import options
from cumae.properties.commands.json_file import json_file
from cumae.properties.commands.values import Whole


@options.command("cumae mutate kernels:slots --op slot_mapping --dialect vllm --jobs 4")
@options.target
@options.operation(
    "The operation that TARGET computes; an oracle or a test under conforms_to brings its own."
)
@options.dialect()
@click.option("--oracles", is_flag=True, help="Mutate this repository's oracles instead of its kernels.")
@options.device
@click.option("--jobs", type=Whole(1), default=2, show_default=True, help="Processes.")
@options.checks
@options.cases("Cases of the final search.", default=25)
@options.limit("Seconds after which a case counts as a hang.", default=5.0)
@json_file("every mutant")
@click.option(
    "--resume",
    is_flag=True,
    help="Judge only the mutants that the file of --json lacks or lists as survivors.",
)
def mutate(**given: Any) -> int:
    """Inject faults into TARGET, one at a time. Without TARGET, into every shipped kernel.

    TARGET is module:function or path/to/file.py:function.

    Exit status 1 if a mutant survives: nothing kills it, and it is not shown to be equivalent.
    """
    from cumae.properties.commands.mutate import mutate as run

    return run(**given)
