"""The floor below a time: a launch that changes one number, and bytes at the rate of a copy. GPU only."""

from math import prod
from typing import NamedTuple

import torch

from cumae.properties.bench.clock import graph_time, queued_time
from cumae.properties.dialects.held import ITEM_BYTES
from cumae.properties.running.buffer import Buffer
from cumae.properties.running.call import Call

COPIED = 2**29
"""Bytes of the copy: ten times the second-level cache of a large GPU."""


class Floor(NamedTuple):
    """Microseconds of a ``launch`` that loads and stores one number, in a CUDA graph.

    It waits for the launch before it; one that begins while that ends may take half a microsecond less.
    ``rate``: bytes a microsecond of a copy too large for the caches; its bytes count as read and as written.
    Bytes that stay in a cache move faster.
    """

    launch: float
    rate: float

    def of(self, num_bytes: int) -> float:
        """Return the microseconds that one launch which moves so many bytes needs.

        >>> Floor(1.5, 4e6).of(2_000_000)
        2.0
        """
        return self.launch + num_bytes / self.rate


def measured_floor() -> Floor:
    """Return the floor of this GPU."""
    source = torch.zeros(COPIED, dtype=torch.uint8, device="cuda")
    one, target = source[:1].clone(), torch.empty_like(source)
    copied = queued_time(lambda: target.copy_(source))[0]
    return Floor(graph_time(lambda: one.add_(1))[0], 2 * COPIED / copied)


def moved_by(call: Call) -> int:
    """Return about how many bytes a call must move: its outputs, and as many of each input at most.

    A block table or a cache may be larger than what a step reads of it.
    """
    written = sum(map(_bytes, call.outputs))
    return written + sum(min(_bytes(buffer), written) for buffer in call.inputs)


def _bytes(buffer: Buffer) -> int:
    return prod(buffer.shape) * ITEM_BYTES[buffer.dtype]
