"""How ``cumae engines`` is called."""

import os
from pathlib import Path
from typing import Any

import click

from cumae.properties.commands import options
from cumae.properties.commands.json_file import json_file
from cumae.properties.commands.values import Whole


@options.command("cumae engines vllm --at vllm.whl --time 20s")
@click.argument("name", required=False)
@click.option(
    "--at",
    type=click.Path(path_type=Path),
    help="A wheel, a folder of packages or a checkout of NAME; default is what is installed.",
)
@click.option("--only", multiple=True, help="Run only this function; may be repeated.")
@options.cases("Cases per function beyond fixtures and chosen sizes; 40 unless --time is given.")
@click.option("--time", "time_text", help="Time for each function, such as 20s, instead of --cases.")
@options.seed
@options.device
@click.option(
    "--jobs",
    type=Whole(1),
    default=os.cpu_count() or 1,
    help="Processes at a time; default: all cores.",
)
@json_file("the result of each function")
def engines(**given: Any) -> int:
    """Run the released functions of an engine against oracles.

    NAME is an engine, such as vllm. Without NAME, run those of every engine that is installed. No engine is
    imported. A disagreement is known, with a case that is run again, or NEW; a function is gone, or changed
    where it takes other arguments. The exit status is 1 unless each function agrees or is known.
    """
    from cumae.properties.commands.engines import engines as run

    return run(**given)
