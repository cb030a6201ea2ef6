"""A call in a process of its own."""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.context import BaseContext
from typing import Any, TypeVar

T = TypeVar("T")


def in_own_process(context: BaseContext, function: Callable[..., T], *arguments: Any) -> T:
    """Return what a function returns in a new process; raise ``BrokenProcessPool`` if that process dies."""
    with ProcessPoolExecutor(1, context) as pool:
        return pool.submit(function, *arguments).result()
