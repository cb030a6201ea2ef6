"""The elements of the tensors that calls get and make: they tell how a function's memory grows."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(slots=True)
class Volume:
    """Elements of the largest argument of a call, and of the largest tensor, no view, that it makes."""

    given: int = 0
    made: int = 0

    def take(self) -> "Volume":
        """Return the volume since the last call, and forget it."""
        taken = Volume(self.given, self.made)
        self.given = self.made = 0
        return taken

    def note_made(self, tensor: Any) -> None:
        """Note what an operator returned."""
        if isinstance(tensor, torch.Tensor) and tensor.numel() > self.made:
            self.made = tensor.numel()


_VOLUME: ContextVar[Volume | None] = ContextVar("cumae_volume", default=None)


@contextmanager
def measuring_volume() -> Iterator[Volume]:
    """Yield the volume of the calls while the context is open."""
    volume = Volume()
    token = _VOLUME.set(volume)
    try:
        yield volume
    finally:
        _VOLUME.reset(token)


def volume_now() -> Volume | None:
    """Return the volume of the open context, None if there is none."""
    return _VOLUME.get()


def note_given(arguments: Mapping[str, Any]) -> None:
    """Note the arguments of a call."""
    if (volume := _VOLUME.get()) is not None:
        sizes = (value.numel() for value in arguments.values() if isinstance(value, torch.Tensor))
        volume.given = max(volume.given, *sizes, 0)
