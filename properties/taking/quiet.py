"""Warnings that an engine's code logs while names are taken out of it."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_warnings() -> Iterator[None]:
    """Print errors only of what is logged without a handler: an engine warns that it is not installed.

    Handlers that someone has configured get everything.
    """
    printing = logging.lastResort
    level = printing.level if printing is not None else logging.NOTSET
    if printing is not None:
        printing.setLevel(logging.ERROR)
    try:
        yield
    finally:
        if printing is not None:
            printing.setLevel(level)
