"""``cumae list``: list operations, with their inputs, outputs and rules."""

import inspect
import json
import re
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import click

from cumae.oracle import INPUTS, Batch, Layout, Options
from cumae.oracle.model.rules import require_choice
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.features import PROMISED
from cumae.properties.cases.promises import CHOICES, PROMISES
from cumae.properties.commands.axes import print_axes
from cumae.properties.dialects import DIALECTS
from cumae.properties.operations import OPERATIONS
from cumae.properties.operations.axes import AXES

ENTRY = r"(?P<names>``\w+``(?:, ``\w+``)*): (?P<meaning>.*?)(?=\.(?: |$))"
"""Fields in the docstring of a record, and what they are: up to the end of the sentence."""


def list_operations(operations: tuple[str, ...], as_json: bool, axes: bool) -> None:
    """List the operations, with rules, inputs, outputs, options and kernels."""
    for name in operations:
        require_choice("operation", name, tuple(OPERATIONS))
    if axes and operations:
        raise ValueError(f"--axes = True, must not stand with an operation, {operations[0]!r}")
    listed = _listed(operations or tuple(OPERATIONS))
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
                also = "these, or " if dialect["own_outputs"] else ""
                click.echo(f"    in {dialect['name']}: {also}{', '.join(names)}")
        click.echo(f"    oracle inputs: {', '.join(operation['inputs'])}")
        if operation["rows"]:
            click.echo(f"    rows of: {', '.join(operation['rows'])}")
        for name, values in operation["options"].items():
            run = f"; in engines: {', '.join(map(str, values))}" if values else ""
            click.echo(f"    option {name}: {listed['meanings'][name]}{run}")
        click.echo(f"    kernels: {', '.join(operation['kernels']) or 'none'}")
    if operations:
        return
    for dialect in listed["dialects"]:
        click.echo(f"dialect {dialect['name']}: {', '.join(dialect['inputs'])}")
    click.echo("promises of a Domain, with defaults:")
    for name, value in listed["promises"].items():
        others = [repr(other) for other in CHOICES.get(name, ()) if other != value]
        click.echo(f"    {name}={value!r}{', or ' + ', '.join(others) if others else ''}")
    click.echo(f"    promises about options, each a tuple of values: {', '.join(listed['options'])}")


def _listed(names: tuple[str, ...]) -> dict[str, Any]:
    """Return operations and dialects as plain values."""
    return {
        "operations": [
            {
                "name": operation.name,
                "rule": operation.rule,
                "outputs": [{"name": output.name, "rule": output.rule} for output in operation.outputs],
                "inputs": list(inspect.signature(operation.oracle).parameters),
                "rows": [
                    *dict.fromkeys(
                        piece.name for output in operation.outputs for piece in (output.pieces or {}).values()
                    )
                ],
                "options": {
                    name: list(feature.engines)
                    for name, feature in PROMISED.items()
                    if feature.name in operation.features
                },
                "kernels": list(operation.kernels),
            }
            for operation in map(OPERATIONS.__getitem__, names)
        ],
        "dialects": [
            {
                "name": dialect.name,
                "inputs": sorted(dialect.inputs),
                "own_outputs": dialect.own_outputs,
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
        "meanings": {name: meaning for name, meaning in _meanings() if name in PROMISED},
    }


def _meanings() -> Iterator[tuple[str, str]]:
    """Yield the fields of a case with their meanings, as the docstrings of its records tell them."""
    for record in (Batch, Layout, *(type(getattr(Options(), field.name)) for field in fields(Options))):
        for entry in re.finditer(ENTRY, " ".join((inspect.getdoc(record) or "").split())):
            for name in re.findall(r"``(\w+)``", entry["names"]):
                yield name, entry["meaning"].replace("``", "")
