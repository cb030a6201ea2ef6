"""Claims of a kernel about offsets, by ``tl.multiple_of`` and ``tl.max_contiguous``, and what relies on them.

The compiler believes them, and lets each thread access several elements at once where they say that these lie
in a row from an address that their size divides. A false claim does no harm where no access follows it: as of
offsets that are multiplied by a stride, or of an access with a mask whose lanes the compiler cannot group.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from cumae.properties.interpreter.source_lines import source_line
from cumae.properties.interpreter.threads import DEFAULT_WARPS, LANES

_MOST_BYTES = 16
"""Bytes that one thread accesses at once at most."""


@dataclass(frozen=True, slots=True)
class _Claim:
    """Offsets that are not what is claimed of them: the first of each ``run`` a multiple of ``divisor``."""

    offsets: Any
    divisor: int
    run: int
    line: str

    def is_followed_by(self, addresses: Any, item: int, start: int) -> bool:
        """Return whether elements of a tensor lie apart as the offsets do, and begin where a vector could."""
        apart = (addresses - addresses[0]).astype(np.int64)
        if not np.array_equal(apart, (self.offsets - self.offsets[0]) * item):
            return False
        before = (int(addresses[0]) - start) // item - int(self.offsets[0])
        return before == 0 or (bool((np.diff(self.offsets) != 1).any()) and before % _MOST_BYTES == 0)


@dataclass(slots=True)
class Hints:
    """The false claims of the program that runs; ``num_warps``: those of the launch."""

    num_warps: int = DEFAULT_WARPS
    false: list[_Claim] = field(default_factory=list)

    def claimed(self, offsets: Any, claims: dict[str, list[int]]) -> None:
        """Take note of claims about a block of offsets, if they are false."""
        axes = [axis for axis, size in enumerate(offsets.shape) if size > 1]
        if len(axes) != 1 or offsets.dtype.kind not in "iu":
            return
        flat, size = offsets.reshape(-1).astype(np.int64), offsets.shape[axes[0]]
        divisor = claims.get("tt.divisibility", [1] * offsets.ndim)[axes[0]]
        run = min(claims.get("tt.contiguity", [0] * offsets.ndim)[axes[0]], size)
        if run < 1 and (np.diff(flat) == 1).all():
            run = size  # the compiler may see it without a claim
        if divisor < 2 or run < 2 or size % run:
            return
        groups = flat.reshape(-1, run)
        if (groups[:, 0] % divisor).any() or (np.diff(groups, axis=1) != 1).any():
            self.false.append(_Claim(flat, divisor & -divisor, run, source_line()))

    def broken_by(self, addresses: Any, item: int, start: int) -> Iterator[tuple[int, str]]:
        """Yield how many elements a thread would access at once, and the line that claims that it can.

        ``addresses``: those of an access without a mask; ``start``: where the tensor begins.
        """
        most = prod(addresses.shape) // (LANES * self.num_warps)
        if most < 2 or start % _MOST_BYTES:
            return
        for claim in self.false:
            width = min(_MOST_BYTES // item, claim.divisor, claim.run & -claim.run, most)
            if width < 2:
                continue
            for axis, size in enumerate(addresses.shape):
                row = np.moveaxis(addresses, axis, -1).reshape(-1, size)[0]
                if size != len(claim.offsets) or not claim.is_followed_by(row, item, start):
                    continue
                groups = row.astype(np.int64).reshape(-1, width)
                if (groups[:, 0] % (width * item)).any() or (np.diff(groups, axis=1) != item).any():
                    yield width, claim.line
                    return
