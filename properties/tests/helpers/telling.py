"""A worker of an isolated process that needs next to nothing to start."""

import os
import time
from pathlib import Path

from cumae.properties.search.child import Tell


class Tells:
    """A worker that tells what it is given before it leaves, and notes that it was made."""

    def __init__(self, tell: Tell, folder: str) -> None:
        (Path(folder) / str(os.getpid())).touch()
        self._tell = tell

    def leave(self, number: int) -> None:
        self._tell(tried=number, other="kept")
        self._tell(tried=number + 1)
        os._exit(3)

    def stay(self, number: int) -> int:
        print("a worker may print")
        return number + len(os.read(0, 1))  # standard input is empty, and no way to the parent

    def refuse(self, number: int) -> None:
        raise ValueError(f"number = {number}, must be another")

    def err(self, number: int) -> None:
        raise TypeError(str(number))

    def hang(self, number: int) -> None:
        self._tell(tried=number)
        time.sleep(300)

    def vary(self, number: int) -> int:
        self._tell(tried=number)
        for variant in range(4):
            time.sleep(0.3)
            self._tell(other=variant)
        return number
