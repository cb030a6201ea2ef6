"""One allocation for all small buffers of a call, or of several: one copy to the device, one copy back."""

from collections.abc import Sequence

import numpy as np
import torch

from cumae.properties.dialects.held import ITEM_BYTES
from cumae.properties.running.buffer import Buffer, Bytes
from cumae.properties.running.device import Device
from cumae.properties.running.memory import view_of
from cumae.properties.running.words import torch_dtype

_ALIGNMENT = 256


class Memory:
    """Bytes on a device, written and read as a whole. ``bytes``: a tensor of uint8."""

    def __init__(self, size: int, device: Device) -> None:
        self.bytes = torch.empty(size, dtype=torch.uint8, device=device)
        self.on_host = device == "cpu"
        self._typed: dict[str, torch.Tensor] = {}

    def view(self, start: int, buffer: Buffer) -> torch.Tensor:
        """Return the elements of a buffer that lies from byte ``start`` on, guards included."""
        if buffer.dtype not in self._typed:
            self._typed[buffer.dtype] = self.bytes.view(torch_dtype(buffer.dtype))
        first = (start + buffer.lead) // ITEM_BYTES[buffer.dtype]
        # `data` counts its own changes: kernels of an engine change memory without a count of torch.
        return self._typed[buffer.dtype].as_strided(buffer.shape, buffer.strides, first).data

    def content(self) -> Bytes:
        """Return the bytes: on the host these themselves, of a GPU a copy."""
        return np.asarray(self.bytes.cpu().numpy())

    def blank(self) -> Bytes:
        """Return bytes to be filled and then uploaded: on the host these themselves."""
        # Not pinned: with pinned memory, commands failed after a kernel had lost the CUDA context.
        return self.content() if self.on_host else np.empty(len(self.bytes), dtype=np.uint8)

    def upload(self, content: Bytes) -> None:
        """Write all bytes."""
        if not self.on_host:
            self.bytes.copy_(torch.from_numpy(content))


class Arena:
    """A place for each named buffer of a call; smaller buffers may reuse the places.

    ``room``: least size of each place in bytes. ``within``: the memory of several calls, and where in it the
    places begin.
    """

    def __init__(
        self,
        buffers: Sequence[Buffer],
        device: Device,
        room: int = 0,
        within: tuple[Memory, int] | None = None,
    ) -> None:
        self._places: dict[str, tuple[int, int]] = {}
        self._tensors: dict[str, tuple[tuple[object, ...], torch.Tensor]] = {}
        stop = within[1] if within is not None else 0
        for buffer in buffers:
            if buffer.before is not None:
                needed = _aligned(max(len(buffer.before), room))
                self._places[buffer.name] = (stop, needed)
                stop += needed
        self.memory = within[0] if within is not None else Memory(stop, device)

    def holds(self, buffers: Sequence[Buffer]) -> bool:
        """Return whether every buffer has a place that is large enough."""
        return all(
            b.before is not None and len(b.before) <= self._places.get(b.name, (0, 0))[1] for b in buffers
        )

    def fill(self, buffers: Sequence[Buffer], *, stale: Sequence[str] = ()) -> None:
        """Write the buffers' content and set their tensors; ``stale`` buffers keep what memory holds."""
        content = self.memory.content() if stale else self.memory.blank()
        self.lay(buffers, content, stale=stale)
        self.memory.upload(content)

    def lay(self, buffers: Sequence[Buffer], content: Bytes, *, stale: Sequence[str] = ()) -> None:
        """Write the buffers' content into that of the memory, and set their tensors."""
        for buffer in buffers:
            if buffer.before is None:
                assert buffer.large is not None
                buffer.tensor = view_of(buffer.large, 0, buffer)
                continue
            start, room = self._places[buffer.name]
            stop = start + len(buffer.before)
            if buffer.name in stale:
                buffer.before = content[start:stop].copy()
            else:
                content[start:stop] = buffer.before
                content[stop : start + room] = 0
            buffer.tensor = self._tensor(start, buffer)

    def _tensor(self, start: int, buffer: Buffer) -> torch.Tensor:
        """Return the tensor of a buffer: the same object as before, if nothing but its content is new."""
        kind = buffer.dtype, buffer.shape, buffer.strides, buffer.lead
        known = self._tensors.get(buffer.name)
        if known is None or known[0] != kind:
            known = self._tensors[buffer.name] = kind, self.memory.view(start, buffer)
        return known[1]

    def collect(self, buffers: Sequence[Buffer]) -> None:
        """Read the current bytes of every small buffer into ``after``."""
        content = self.memory.content()
        self.take(buffers, content.copy() if self.memory.on_host else content)

    def take(self, buffers: Sequence[Buffer], content: Bytes) -> None:
        """Set ``after`` of every small buffer to its part of the memory's content."""
        for buffer in buffers:
            if buffer.before is not None:
                start = self._places[buffer.name][0]
                buffer.after = content[start : start + len(buffer.before)]


def bytes_for(buffers: Sequence[Buffer]) -> int:
    """Return the bytes of an arena for these buffers."""
    return sum([_aligned(len(buffer.before)) for buffer in buffers if buffer.before is not None])


def _aligned(size: int) -> int:
    return size + -size % _ALIGNMENT
