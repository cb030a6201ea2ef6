"""Programs that wait for a later one, which the interpreter has not begun."""

from dataclasses import dataclass, field
from typing import Any

LONG = 500
"""Accesses of a program after which its loads are looked at."""
MOST_REPEATS = 200
_FEW = 8


@dataclass(slots=True)
class Patience:
    """Counts the accesses of a program, and says when a long one only repeats its loads."""

    _count: int = 0
    _repeats: int = 0
    _seen: set[int] = field(default_factory=set)

    def begin(self) -> None:
        """Begin a program."""
        self._count = self._repeats = 0
        self._seen.clear()

    def ends(self, addresses: Any, found: Any) -> bool:
        """Count an access, and return whether the program waits.

        ``found``: the values of a load or of an atomic, None for a store.
        """
        self._count += 1
        if self._count <= LONG:
            return False
        key = None if found is None else hash((addresses.tobytes(), found.tobytes()))
        if key in self._seen:
            self._repeats += 1
        else:
            self._repeats = 0
            if key is None or len(self._seen) >= _FEW:
                self._seen.clear()
            if key is not None:
                self._seen.add(key)
        return self._repeats >= MOST_REPEATS
