"""One allocation for all small buffers of a call: one copy to the device, one copy back."""

from collections.abc import Sequence

import numpy as np
import torch

from cumae.properties.running.device import Device
from cumae.properties.running.memory import Buffer, view_of

_ALIGNMENT = 256


class Arena:
    """One allocation with a place for each named buffer; smaller buffers may reuse the places.

    ``room``: least size of each place in bytes.
    """

    def __init__(self, buffers: Sequence[Buffer], device: Device, room: int = 0) -> None:
        self._places: dict[str, tuple[int, int]] = {}
        size = 0
        for buffer in buffers:
            if buffer.before is not None:
                needed = max(len(buffer.before), room)
                needed += -needed % _ALIGNMENT
                self._places[buffer.name] = (size, needed)
                size += needed
        self._bytes = torch.empty(size, dtype=torch.uint8, device=device)

    def holds(self, buffers: Sequence[Buffer]) -> bool:
        """Return whether every buffer has a place that is large enough."""
        return all(
            b.before is not None and len(b.before) <= self._places.get(b.name, (0, 0))[1] for b in buffers
        )

    def fill(self, buffers: Sequence[Buffer], *, stale: Sequence[str] = ()) -> None:
        """Write the buffers' content and set their tensors; ``stale`` buffers keep what memory holds."""
        on_host = self._bytes.device.type == "cpu"
        there = self._bytes.cpu().numpy() if on_host or stale else np.empty(0, dtype=np.uint8)
        # On the CPU the content is written in its place; a GPU gets it in one copy.
        content = there if on_host else np.zeros(len(self._bytes), dtype=np.uint8)
        for buffer in buffers:
            if buffer.before is None:
                assert buffer.large is not None
                buffer.tensor = view_of(buffer.large, 0, buffer)
                continue
            start, room = self._places[buffer.name]
            stop = start + len(buffer.before)
            if buffer.name in stale:
                buffer.before = there[start:stop].copy()
                content[stop : start + room] = there[stop : start + room]
            else:
                content[stop : start + room] = 0
            content[start:stop] = buffer.before
            buffer.tensor = view_of(self._bytes, start, buffer)
        if not on_host:
            self._bytes.copy_(torch.from_numpy(content))

    def collect(self, buffers: Sequence[Buffer]) -> None:
        """Read the current bytes of every small buffer into ``after``."""
        content = self._bytes.cpu().numpy()
        for buffer in buffers:
            if buffer.before is not None:
                start = self._places[buffer.name][0]
                buffer.after = content[start : start + len(buffer.before)].copy()
