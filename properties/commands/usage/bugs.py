"""How ``cumae bugs`` is called."""

from typing import Any

import click

from cumae.properties.commands import options
from cumae.properties.commands.json_file import json_file


@options.command("cumae bugs --report vllm#36580")
@click.option("--report", help="Only the bugs of this report, such as vllm#36580.")
@options.seed
@options.device
@json_file("the figures")
def bugs(**given: Any) -> int:
    """Search for the known engine bugs and print what caught each. Each is a broken implementation."""
    from cumae.properties.commands.bugs import bugs as run

    return run(**given)
