"""How ``cumae draw`` is called."""

from pathlib import Path
from typing import Any

import click

from cumae.properties.commands import options


@options.command(
    "cumae draw .cumae/failures/CASE.json --html case.html",
    "cumae draw slot_mapping/shared_prefix",
    "cumae draw --op slot_mapping --seed 3",
)
@click.argument("file", required=False, type=click.Path(path_type=Path))
@options.operation("Draw a seeded case of this operation, with its expected answer, instead of FILE.")
@options.dialect("How a dump names its tensors.", default=None)
@options.seed
@click.option("--svg", "svg_file", type=click.Path(path_type=Path), help="Write the picture here.")
@click.option("--html", "html_file", type=click.Path(path_type=Path), help="Write report and picture here.")
def draw(**given: Any) -> int:
    """Draw a saved failure, or a plain case or trace. Marks the first wrong element. Runs no kernel.

    FILE may also be the text cumae1:… of a report, with --dialect a dump of an engine's tensors, or the name
    of a shipped fixture: OPERATION/NAME, or NAME alone if only one operation has it.

    Without FILE, draw the case of a seed for the operation --op, and what the oracle expects of each output.
    In Python, cumae.seeded(OP, SEED) is the same case.
    """
    from cumae.properties.commands.draw import draw as run

    return run(**given)
