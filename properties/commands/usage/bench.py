"""How ``cumae bench`` is called."""

from pathlib import Path
from typing import Any

import click

from cumae.properties.commands import options
from cumae.properties.commands.json_file import json_file


@options.command("cumae bench kernels.py:slots --op slot_mapping --dialect vllm")
@options.target
@options.operation()
@options.dialect()
@click.option("--svg", "picture", type=Path, help="Also draw the times as bars into this file.")
@json_file("the figures")
def bench(**given: Any) -> int:
    """Time TARGET beside the shipped kernels of its operation.

    Times are those in CUDA graphs and launched, so a GPU is needed. TARGET is module:function or
    file.py:function. Without it, every shipped kernel is timed, whole steps in three ways, how their times
    grow, and what the original pull requests save. A function must agree on each step that it is timed on;
    one that does not ends the run, and the times before it are kept. Beside a time stands its floor: a
    launch that changes one number, and the outputs with as many bytes of each input at most, at the rate of
    a large copy.
    """
    from cumae.properties.commands.bench import bench as run

    return run(**given)
