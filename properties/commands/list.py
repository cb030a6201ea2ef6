"""``cumae list``: operations, their inputs and outputs, rules."""

import inspect

import click

from cumae.properties.dialects import DIALECTS
from cumae.properties.operations import OPERATIONS


@click.command("list")
def list_operations() -> None:
    """List the operations: outputs, rules, the oracle's inputs and the kernels shipped here."""
    for operation in OPERATIONS.values():
        click.echo(f"{operation.name}: {operation.rule}")
        for output in operation.outputs:
            click.echo(f"    {output.name}: {output.rule}")
        click.echo(f"    oracle inputs: {', '.join(inspect.signature(operation.oracle).parameters)}")
        click.echo(f"    kernels: {', '.join(operation.kernels)}")
    for dialect in DIALECTS.values():
        click.echo(f"dialect {dialect.name}: {', '.join(sorted(dialect.inputs))}")
