"""``cumae list``: list operations, with their inputs, outputs and rules."""

import inspect
import json
from typing import Any

import click

from cumae.oracle import INPUTS
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.features import PROMISED
from cumae.properties.cases.promises import PROMISES
from cumae.properties.commands.axes import print_axes
from cumae.properties.dialects import DIALECTS
from cumae.properties.operations import OPERATIONS
from cumae.properties.operations.axes import AXES


def list_operations(as_json: bool, axes: bool) -> None:
    """List the operations, with rules, inputs, outputs and kernels."""
    listed = _listed()
    if axes and not as_json:
        print_axes()
        return
    if as_json:
        click.echo(json.dumps(listed, indent=1, ensure_ascii=False))
        return
    for operation in listed["operations"]:
        click.echo(f"{operation['name']}: {operation['rule']}")
        for output in operation["outputs"]:
            click.echo(f"    {output['name']}: {output['rule']}")
        for dialect in listed["dialects"]:
            if names := dialect["outputs"][operation["name"]]:
                click.echo(f"    in {dialect['name']}: {', '.join(names)}")
        click.echo(f"    oracle inputs: {', '.join(operation['inputs'])}")
        if operation["rows"]:
            click.echo(f"    rows of: {', '.join(operation['rows'])}")
        click.echo(f"    kernels: {', '.join(operation['kernels'])}")
    for dialect in listed["dialects"]:
        click.echo(f"dialect {dialect['name']}: {', '.join(dialect['inputs'])}")
    promises = (f"{name}={value!r}" for name, value in listed["promises"].items())
    click.echo(f"promises of a Domain, with defaults: {', '.join(promises)}")
    click.echo(f"    promises about options, each a tuple of values: {', '.join(listed['options'])}")


def _listed() -> dict[str, Any]:
    """Return operations and dialects as plain values."""
    return {
        "operations": [
            {
                "name": operation.name,
                "rule": operation.rule,
                "outputs": [{"name": output.name, "rule": output.rule} for output in operation.outputs],
                "inputs": list(inspect.signature(operation.oracle).parameters),
                "rows": [
                    piece.name for output in operation.outputs for piece in (output.pieces or {}).values()
                ],
                "kernels": list(operation.kernels),
            }
            for operation in OPERATIONS.values()
        ],
        "dialects": [
            {
                "name": dialect.name,
                "inputs": sorted(dialect.inputs),
                "outputs": {
                    name: sorted(output.name for output in dialect.outputs.get(name, ()))
                    for name in OPERATIONS
                },
            }
            for dialect in DIALECTS.values()
        ],
        "axes": {name: axis.counts for name, axis in AXES.items()},
        "oracle_inputs": sorted(INPUTS),
        "promises": {name: getattr(Domain(), name) for name in PROMISES},
        "options": sorted(PROMISED),
    }
