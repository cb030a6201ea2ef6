"""Poison and guard words around memory that the function under test allocates itself."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, wraps
from typing import Any
from weakref import ref as weakref

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from cumae.properties.interpreter.region import Region
from cumae.properties.running.device import interpreting
from cumae.properties.running.duplicates import NAMES, turned_round
from cumae.properties.running.volume import volume_now

GUARD_BYTES = 1024
_EMPTY = {"empty", "empty_strided", "empty_permuted", "empty_like", "new_empty", "new_empty_strided"}
_FILLED = {"zeros", "zeros_like", "new_zeros", "ones", "ones_like", "new_ones"}
_FILLED |= {"full", "full_like", "new_full"}
_ALLOCATE = _EMPTY | _FILLED
_RESIZE = {"resize_", "resize_as_"}
_OF_NUMPY = ("empty", "empty_like")


@dataclass(frozen=True, slots=True)
class _Allocation:
    storage: torch.Tensor
    address: int
    size_bytes: int
    item_bytes: int
    is_filled: bool
    tensor: "weakref[torch.Tensor]"

    def is_damaged(self, poison: int) -> bool:
        """Whether a byte of a fence is not the poison any more."""
        content, fence = self.storage.cpu().numpy(), bytes([poison]) * GUARD_BYTES
        return any(part.tobytes() != fence for part in (content[:GUARD_BYTES], content[-GUARD_BYTES:]))


class FencedAllocations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A torch mode in which ``torch.empty`` and its kin return poisoned tensors between guard words.

    It sees allocations inside operators that are written in Python, but not inside others
    (``torch.cumsum``), and leaves tensors alone that are not on the CPU or on CUDA. What ``resize_`` adds to
    a tensor is poisoned too, as are ``numpy.empty`` and ``numpy.empty_like``.
    ``turns_round``: whether writes to indices of the CPU take these from the last to the first, as any may
    be the last on a GPU; ``turned`` says whether one did.
    """

    def __init__(self, poison: int, *, turns_round: bool = False) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._poison = poison
        self._turns_round = turns_round
        self.turned = False
        self._made: list[_Allocation] = []
        self._num_first: int | None = None
        self._volume = volume_now()
        self._plain: list[list[Any]] = []

    def __enter__(self) -> Any:
        """Enter the mode."""
        if "torch._dynamo" in sys.modules:  # else torch compiles the mode, too
            _set_dispatch(_never_compiled())
        self._plain.append([vars(np)[name] for name in _OF_NUMPY])
        vars(np).update(zip(_OF_NUMPY, map(self._poisoned, self._plain[-1]), strict=True))
        return super().__enter__()  # type: ignore[no-untyped-call]

    def __exit__(self, *raised: object) -> None:
        """Leave the mode."""
        vars(np).update(zip(_OF_NUMPY, self._plain.pop(), strict=True))
        super().__exit__(*raised)  # type: ignore[no-untyped-call]

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Tell torch whether a compiled function stays compiled in this mode: it does on a GPU."""
        return not interpreting()

    def _poisoned(self, make: Any) -> Any:
        """Return a function of NumPy that fills what it makes with the poison."""

        @wraps(make)
        def poisoned(*args: Any, **more: Any) -> Any:
            made = make(*args, **more)
            if made.size and not made.dtype.hasobject:
                made.ravel(order="K").view(np.uint8)[...] = self._poison
            return made

        return poisoned

    def _dispatch(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if (
            self._turns_round
            and name in NAMES
            and (turned := turned_round(name, args, kwargs or {})) is not None
        ):
            args, self.turned = turned, True
        if (key := _python_key(func, args, kwargs or {})) is not None:
            with self:  # torch has left the mode, for all that the operator calls, too
                return func.redispatch(torch._C.DispatchKeySet(key), *args, **(kwargs or {}))
        if name in _RESIZE:
            return self._resized(func, args, kwargs or {})
        plain = func(*args, **(kwargs or {}))
        if self._volume is not None and not func.is_view:
            own = (*args, *(kwargs or {}).values())
            if not any(plain is one for one in own):  # else it changed an argument in place
                self._volume.note_made(plain)
        if name not in _ALLOCATE or plain.device.type not in ("cpu", "cuda") or plain.is_sparse:
            return plain
        return self._fence(plain, keep=name in _FILLED)

    def _fence(self, plain: torch.Tensor, *, keep: bool) -> torch.Tensor:
        item = plain.element_size()
        if 0 in plain.shape:
            return plain
        span = _span(plain)
        size = span * item
        size += -size % 256 + 2 * GUARD_BYTES
        storage = torch.full((size,), self._poison, dtype=torch.uint8, device=plain.device)
        whole = storage.view(plain.dtype)
        fenced = whole.as_strided(plain.shape, plain.stride(), GUARD_BYTES // item)
        if keep:
            fenced.copy_(plain)
        seen = storage[: 2 * GUARD_BYTES + span * item]
        made = _Allocation(seen, fenced.data_ptr(), span * item, item, keep, weakref(fenced))
        self._made.append(made)
        return fenced

    def _resized(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Resize a tensor in place; what it then has more is poison, and its fence stands behind that."""
        storage = args[0].untyped_storage()
        before = storage.nbytes()
        holders = (i for i, made in enumerate(self._made) if made.storage.data_ptr() == storage.data_ptr())
        held = next(holders, None) if before else None
        tensor = func(*args, **kwargs)
        end = (tensor.storage_offset() + _span(tensor)) * tensor.element_size()
        room = before if held is None else self._made[held].storage.numel() - GUARD_BYTES
        if end <= room or tensor.device.type not in ("cpu", "cuda"):
            return tensor
        if held is not None:
            storage.resize_(max(before, end + GUARD_BYTES))
        content = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage)
        content[before:] = self._poison
        if held is not None:
            sizes = end - GUARD_BYTES, tensor.element_size()
            seen, start = content[: end + GUARD_BYTES], content.data_ptr() + GUARD_BYTES
            self._made[held] = _Allocation(seen, start, *sizes, False, weakref(tensor))
        return tensor

    @property
    def num_bytes(self) -> int:
        """Bytes of the tensors made here, fences included."""
        return sum(made.storage.numel() for made in self._made)

    def made(self, tensor: torch.Tensor) -> bool:
        """Return whether a tensor lies in memory that was poisoned here."""
        address = tensor.data_ptr()
        return any(a.address <= address < a.address + a.size_bytes for a in self._made)

    def regions(self, *, filled: bool = True) -> Iterator[Region]:
        """Yield the memory of each tensor allocated here; without ``filled``, of uninitialised ones only."""
        for i, a in enumerate(self._made):
            if filled or not a.is_filled:
                yield Region(f"allocated tensor {i}", a.address, a.address + a.size_bytes, a.item_bytes)

    def poisoned(self) -> Iterator[Region]:
        """Yield the memory of each uninitialised tensor allocated here."""
        return self.regions(filled=False)

    def damage(self) -> Iterator[str]:
        """Yield a message for each tensor whose guard words were overwritten."""
        for i, allocation in enumerate(self._made):
            if allocation.is_damaged(self._poison):
                yield f"allocated tensor {i} was written outside its elements"

    def free(self) -> None:
        """Forget tensors that the function has dropped, but none made before the first call of this method.

        A function may keep memory without its tensor, as after ``detach``; what it keeps for long, it makes
        at first.
        """
        if self._num_first is None:
            self._num_first = len(self._made)
        later = (made for made in self._made[self._num_first :] if made.tensor() is not None)
        self._made[self._num_first :] = later


def _span(tensor: torch.Tensor) -> int:
    """Return the elements from a tensor's first to its last; 0 if it has none."""
    if 0 in tensor.shape:
        return 0
    return 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))


def _python_key(func: Any, args: Any, kwargs: Any) -> Any:
    """Return the key under which an operator runs Python code, as one of ``torch.library.custom_op`` does.

    None if it runs none, or if no tensor tells where it runs.
    """
    if func.namespace == "aten":
        return None
    given = (*args, *kwargs.values())
    tensors = (one for part in given for one in (part if isinstance(part, (list, tuple)) else (part,)))
    devices = {one.device.type for one in tensors if isinstance(one, torch.Tensor)}
    device = "CUDA" if "cuda" in devices else "CPU" if devices == {"cpu"} else ""
    name = func.name().replace("::", "/")
    runs = any(f"{name}/{key}" in torch.library._impls for key in (device, "CompositeExplicitAutograd"))
    return getattr(torch._C.DispatchKey, device) if device and runs else None


def _set_dispatch(dispatch: Any) -> None:
    """Let a function see each operator. In the class itself torch would wrap it, and import its compiler."""
    FencedAllocations.__torch_dispatch__ = dispatch  # type: ignore[method-assign]


@cache
def _never_compiled() -> Any:
    return torch.compiler.disable(FencedAllocations._dispatch)  # type: ignore[no-untyped-call]


_set_dispatch(FencedAllocations._dispatch)
