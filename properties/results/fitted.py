"""Text broken at spaces to the width of a terminal; a log keeps its lines whole."""

import sys
from shutil import get_terminal_size
from textwrap import wrap
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from cumae.properties.results.explain import Line

COPIED = ("command", "copied")
"""Styles of lines that a reader copies, so they are never broken."""
HANGING = 4
"""Columns by which the rest of a broken line stands further in."""


def terminal_width(stream: TextIO | None = None) -> int:
    """Return the columns of the terminal that text goes to, 0 if it goes elsewhere.

    ``stream``: where text goes, None for standard output.
    """
    return get_terminal_size((0, 0)).columns if (stream or sys.stdout).isatty() else 0


def fitted(text: str, width: int) -> str:
    """Return text whose lines hold at most ``width`` characters where a space allows; 0 is no limit.

    >>> print(fitted("  rule: one past the last key", 20))
      rule: one past the
          last key
    """
    if not width:
        return text
    return "\n".join(part for line in text.split("\n") for part in _broken(line, width))


def _broken(line: str, width: int) -> list[str]:
    if len(line) <= width:
        return [line]
    own = line[: len(line) - len(line.lstrip())]
    hanging = own + " " * HANGING
    parts = wrap(
        line.lstrip(),
        max(width, 20),
        initial_indent=own,
        subsequent_indent=hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return parts or [line]


def fitted_line(line: "Line", width: int) -> str:
    """Return the text of a line of a report, whole if it is to be copied."""
    return line.text if line.style in COPIED else fitted(line.text, width)
