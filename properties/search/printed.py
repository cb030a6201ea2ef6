"""The last lines that a function prints while it is tested."""

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from typing import TextIO

MOST_LINES, MOST_COLUMNS = 10, 200
MOST_BYTES = 2**20
KEPT_BYTES = 2**13


class Printed:
    """A file in memory in place of standard output; it survives the process that writes to it."""

    def __init__(self) -> None:
        self.file = os.memfd_create("cumae-printed")
        fcntl.fcntl(self.file, fcntl.F_SETFL, os.O_APPEND)

    def trim(self) -> None:
        """Drop all but the end if much has been written."""
        size = os.fstat(self.file).st_size
        if size > MOST_BYTES:
            end = os.pread(self.file, KEPT_BYTES, size - KEPT_BYTES)
            self.clear()
            os.write(self.file, end)

    def clear(self) -> None:
        """Drop everything."""
        os.ftruncate(self.file, 0)

    def lines(self) -> tuple[str, ...]:
        """Return the last lines, without those of compute-sanitizer."""
        size = os.fstat(self.file).st_size
        end = os.pread(self.file, KEPT_BYTES, max(0, size - KEPT_BYTES)).decode(errors="replace")
        lines = [line.rstrip() for line in end.splitlines() if not line.startswith("=========")]
        return tuple(line[:MOST_COLUMNS] for line in lines[-MOST_LINES:])

    def close(self) -> None:
        """Give the memory back."""
        os.close(self.file)


@contextmanager
def keeping_prints() -> Iterator[Printed]:
    """Keep what is printed in this process, by Python or below it, away from standard output."""
    printed = Printed()
    sys.stdout.flush()
    before = os.dup(1)
    os.dup2(printed.file, 1)
    try:
        with os.fdopen(os.dup(printed.file), "w", buffering=1) as stream, redirect_stdout(stream):
            yield printed
    finally:
        os.dup2(before, 1)
        os.close(before)
        printed.close()


def own_output() -> TextIO:
    """Return a stream to standard output that ``keeping_prints`` does not take: for progress and results."""
    try:
        number = os.dup(sys.stdout.fileno())
    except (AttributeError, OSError):  # a stream of another kind
        return sys.stdout
    return os.fdopen(number, "w", buffering=1, encoding=sys.stdout.encoding, errors=sys.stdout.errors)


def print_by_lines() -> None:
    """Have this process write each printed line at once: it may die before it would."""
    with suppress(AttributeError):  # a stream of another kind
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
