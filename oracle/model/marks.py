"""What an element of an input or of an expected output can be besides a number."""

from enum import Enum
from typing import NoReturn


class Mark(Enum):
    """``GARBAGE``: nobody may read it; ``UNTOUCHED``: keeps what was there; ``ANY``: unspecified.

    Marks refuse arithmetic, order and truth, so an oracle that reads garbage raises instead of
    answering.
    """

    GARBAGE = "garbage"
    UNTOUCHED = "untouched"
    ANY = "any"

    def __bool__(self) -> NoReturn:
        raise TypeError(f"{self} has no truth value: nothing may read it")

    def __repr__(self) -> str:
        return self.name


GARBAGE = Mark.GARBAGE
UNTOUCHED = Mark.UNTOUCHED
ANY = Mark.ANY
