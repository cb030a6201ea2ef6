"""How many variants of kernels Triton compiles in a search, and how long that takes."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class Compiles:
    """``count``: variants that were compiled and not found in Triton's cache; ``seconds``: of all of them."""

    count: int = 0
    seconds: float = 0.0


@contextmanager
def noting_compiles() -> Iterator[Compiles]:
    """Note what Triton compiles while the context is open; a listener from before hears of it too."""
    from triton import knobs

    compiles, before = Compiles(), knobs.compilation.listener

    def listen(*, times: Any, cache_hit: bool, **others: Any) -> None:
        if not cache_hit:
            compiles.count += 1
            compiles.seconds += times.total / 1e6
        if before is not None:
            before(times=times, cache_hit=cache_hit, **others)

    knobs.compilation.listener = listen
    try:
        yield compiles
    finally:
        knobs.compilation.listener = before
