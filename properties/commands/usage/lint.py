"""How ``cumae lint`` is called."""

from pathlib import Path
from typing import Any

import click

from cumae.properties.commands import options
from cumae.properties.commands.json_file import json_file
from cumae.properties.commands.values import OneOf


@options.command("cumae lint kernels.py:slots --op slot_mapping --dialect vllm")
@options.target
@options.operation()
@options.dialect()
@click.option(
    "--output-format",
    type=OneOf(("text", "github", "sarif")),
    default="text",
    show_default=True,
    help="github also prints annotations; sarif is for code scanning, and alone on standard output.",
)
@click.option(
    "--record",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Record registers, stack and shared memory of each kernel in this file. Kernels that it holds"
    " unchanged are not compiled again; an increase is reported.",
)
@json_file("the findings")
def lint(**given: Any) -> int:
    """Compile and analyse the kernels that TARGET launches.

    TARGET is module:function or file.py:function. Without it, every shipped kernel is analysed.

    Four rules: a kernel compiles for six targets; no 32-bit product that can pass 2^31 reaches an address; no
    masked load without `other` reaches a sum or an address; the number of compiles does not grow with the
    step. Kernels are compiled from recorded launches and never run. A TARGET under `conforms_to` brings its
    operation, dialect and Domain.
    """
    from cumae.properties.commands.lint import lint as run

    return run(**given)
