"""How ``cumae draw`` is called."""

from pathlib import Path
from typing import Any

import click

from cumae.properties.commands import options


@options.command("cumae draw .cumae/failures/CASE.json --html case.html")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--svg", "svg_file", type=click.Path(path_type=Path), help="Write the picture here.")
@click.option("--html", "html_file", type=click.Path(path_type=Path), help="Write report and picture here.")
def draw(**given: Any) -> int:
    """Draw a saved failure, or a plain case or trace. Marks the first wrong element. Runs no kernel."""
    from cumae.properties.commands.draw import draw as run

    return run(**given)
