"""Marks that stand for an element of an input or of an expected output instead of a number."""

from enum import Enum
from typing import NoReturn


class Mark(Enum):
    """``GARBAGE``: must not be read; ``UNTOUCHED``: keeps its old content; ``ANY``: unspecified.

    Marks have no arithmetic, order or truth value, so an oracle that reads garbage raises.
    """

    GARBAGE = "garbage"
    UNTOUCHED = "untouched"
    ANY = "any"

    def __bool__(self) -> NoReturn:
        raise TypeError(f"{self} has no truth value: it must not be read")

    def __repr__(self) -> str:
        return self.name


GARBAGE = Mark.GARBAGE
UNTOUCHED = Mark.UNTOUCHED
ANY = Mark.ANY
