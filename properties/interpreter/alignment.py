"""Accesses that a GPU does not make because they are not aligned."""

from typing import Any

import numpy as np

from cumae.properties.interpreter.source_lines import source_line
from cumae.properties.interpreter.strays import Unaligned
from cumae.properties.interpreter.watch import Watch


def look_at(watch: Watch, kind: str, addresses: Any, reached: Any, item: int, *, has_mask: bool) -> None:
    """Record an access of elements of ``item`` bytes if its addresses are odd, or those of a thread's vector.

    ``reached``: the addresses of lanes that are not masked off.
    """
    if watch.pointers.any_cast and (reached % np.uint64(item)).any():
        watch.unaligned(Unaligned(kind, item, source_line()))
    start = None if has_mask or not watch.hints.false else watch.start_of(int(reached[0]))
    if start is not None:
        for count, claimed in watch.hints.broken_by(addresses, item, start):
            watch.unaligned(Unaligned(kind, count * item, source_line(), count, claimed))
