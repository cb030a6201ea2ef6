"""How ``cumae bench`` is called."""

from typing import Any

from cumae.properties.commands import options
from cumae.properties.commands.json_file import json_file


@options.command("cumae bench --json times.json")
@json_file("the figures")
def bench(**given: Any) -> int:
    """Time every shipped kernel in a CUDA graph. Needs a GPU."""
    from cumae.properties.commands.bench import bench as run

    return run(**given)
