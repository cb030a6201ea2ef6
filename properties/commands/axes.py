"""The parts of an operation of one's own: axes of outputs and inputs of oracles, shown on one step."""

import reprlib

import click

from cumae.oracle import INPUTS, Batch, Case, Inputs, Layout, Request
from cumae.properties.operations.axes import AXES, Axis
from cumae.properties.results.drawing import draw

EXAMPLE = Case(
    Batch((Request(2, 3, (7, 1)), Request(0, 0), Request(5, 1, (4, 2), "decode")), 4),
    Layout(num_padding_tokens=2, num_padding_requests=1),
)
MOST = 60


def print_axes() -> None:
    """Print every axis with its number of elements in an example, and every input with its value there."""
    click.echo(f"An example of a step, in 6 rows of tokens and 4 of requests:\n{draw(EXAMPLE)}")
    click.echo("\naxes, for Output(NAME, DTYPE, AXIS): live elements, all with padding, and what they are")
    for name, axis in AXES.items():
        click.echo(f"  {name:21} {_extent(axis):>12}  {axis.counts}")
    click.echo("\ninputs, for the parameters of an oracle: the value in the example")
    inputs = Inputs(EXAMPLE)
    for name in sorted(INPUTS):
        click.echo(f"  {name:26} {_shortened(inputs[name])}")
    click.echo("\nAn oracle may also name inputs that only the dialect has: `cumae list` has them.")


def _extent(axis: Axis) -> str:
    """Return the number of elements in the example; an axis without one needs an output with a shape."""
    if axis.extent is None:
        return "give shape"
    each = axis.entries(EXAMPLE)
    live, padded = (count * each for count in axis.extent(EXAMPLE))
    return f"{live} of {padded}" if live != padded else str(live)


def _shortened(value: object) -> str:
    shown = reprlib.Repr()
    shown.maxlist, shown.maxother = 8, MOST
    text = shown.repr(value)
    return text if len(text) <= MOST else f"{text[:MOST]}…"
