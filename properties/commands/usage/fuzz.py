"""How ``cumae fuzz`` is called."""

from typing import Any

import click

from cumae.properties.commands import options
from cumae.properties.commands.json_file import json_file
from cumae.properties.commands.values import OneOf
from cumae.properties.running.sanitizer import SANITIZERS


@options.command("cumae fuzz kernels.py:slots --op slot_mapping --dialect vllm --time 30s")
@options.target
@options.operation()
@options.dialect()
@click.option(
    "--promise",
    "promised",
    metavar="NAME=VALUE",
    multiple=True,
    help="A promise of Domain, such as padding='none', in place of the test's own; may be repeated.",
)
@click.option("--time", "time_text", help="Time for all kernels together; 60s unless --cases are given.")
@options.cases("Cases per kernel beyond fixtures and chosen sizes, instead of --time.")
@options.seed
@click.option(
    "--shard", default="1/1", show_default=True, help="i/n: the i-th of n runs, each with its own seed."
)
@options.device
@options.checks
@click.option(
    "--large", is_flag=True, help="Start with one case of up to 65,536 requests and a million tokens."
)
@json_file("the figures, and the finding, place and case of each failure,")
@options.coverage
@options.failures
@options.database
@options.output_format
@options.isolate("Run in isolated processes; the default for a TARGET.")
@click.option(
    "--sanitize", type=OneOf(SANITIZERS), help="Run under Triton's assertions or compute-sanitizer."
)
@options.limit("Seconds a case may take in an isolated process.")
@options.verbose("Print shares of shapes, where time went, what kernels were not asked, whole tracebacks.")
def fuzz(**given: Any) -> int:
    """Fuzz TARGET against its oracle. Without TARGET, fuzz every shipped kernel.

    TARGET is module:function or path/to/file.py:function. If a module that the file imports is not installed,
    the function is taken from the file without importing it.
    """
    from cumae.properties.commands.fuzz import fuzz as run

    return run(**given)
