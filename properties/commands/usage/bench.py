"""How ``cumae bench`` is called."""

from typing import Any

from cumae.properties.commands import options
from cumae.properties.commands.json_file import json_file


@options.command("cumae bench kernels.py:slots --op slot_mapping --dialect vllm")
@options.target
@options.operation()
@options.dialect()
@json_file("the figures")
def bench(**given: Any) -> int:
    """Time TARGET beside the shipped kernels of its operation, in CUDA graphs. Needs a GPU.

    TARGET is module:function or file.py:function; it must agree on each step that is timed. Without it, every
    shipped kernel is timed, and whole steps in three ways.
    """
    from cumae.properties.commands.bench import bench as run

    return run(**given)
