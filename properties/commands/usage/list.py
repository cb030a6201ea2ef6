"""How ``cumae list`` is called."""

from typing import Any

import click

from cumae.properties.commands import options


@options.command("cumae list", "cumae list slot_mapping", "cumae list --axes", name="list")
@click.argument("operations", nargs=-1, metavar="[OPERATION]...")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
@click.option("--axes", is_flag=True, help="List the axes of outputs and the inputs of oracles instead.")
def list_operations(**given: Any) -> None:
    """List operations with rules, outputs, inputs, options and kernels.

    Without OPERATION, all of them.
    """
    from cumae.properties.commands.list import list_operations as run

    return run(**given)
