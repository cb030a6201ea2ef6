"""Pointers that a kernel makes from integers, each marked with the tensor that its word points into."""

import gc
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from cumae.properties.interpreter.region import Region

_SHIFT = 48
"""Bits of a user-space address: the higher bits of a word are free for the mark."""
_PLAIN = np.uint64(2**_SHIFT - 1)
_SMALLEST = 2**16
"""Lowest address in use: smaller words, mostly lengths and slots, are no addresses."""
NOWHERE = 2**15
"""Mark of a pointer made from a word that was not loaded or points into no living tensor."""
_Ref = weakref.ref[torch.Tensor]
_FOUND: list[_Ref] = []
"""Tensors that earlier launches reached by such pointers: searched before all other living tensors."""


@dataclass(slots=True)
class Pointers:
    """The pointers that one launch makes from integers: the high 16 bits of each name its tensor.

    Addresses leave these bits free, and arithmetic, selection and broadcasts keep them. So each lane
    reaches the tensor that its own word points into, and no neighbour. The word must be loaded from
    memory, or computed and point into a tensor that a loaded word points into too. An overrun computed
    in integers is missed if it ends in another tensor that a loaded word names. ``known``: the tensors
    of the call. Every other living tensor may be reached too, with all of its storage, unless tensors
    of the call lie in that storage between guard words. ``any_cast``: whether pointers were made, or made to
    point at larger elements, which need not lie at multiples of their size.
    """

    known: Callable[[], Iterable[Region]] = tuple
    tensors: list[Region] = field(default_factory=list)
    any_made: bool = False
    any_cast: bool = False
    _loaded: list[Any] = field(default_factory=list)
    _old: list[_Ref] | None = None

    def loaded(self, words: Any) -> None:
        """Record the words of a load that may be addresses."""
        if words.dtype.kind in "iu" and words.itemsize == 8:
            words = np.asarray(words).view(np.uint64)
            words = words[(words >= _SMALLEST) & (words <= _PLAIN)]
            if words.size:
                self._loaded.append(words)

    def made(self, words: Any) -> Any:
        """Return the pointers made from words, each marked with the tensor that it points into."""
        self.any_made = True
        marked = np.array(words, dtype=np.uint64)
        for word in np.unique(marked).tolist():
            if 0 < word <= _PLAIN:
                marked[marked == word] = self._mark(word) << _SHIFT | word
        return marked

    def unmade(self, pointers: Any) -> Any:
        """Return the addresses of pointers, without marks."""
        addresses = np.asarray(pointers)
        if addresses.dtype != np.uint64:
            addresses = addresses.view(np.uint64)
        return addresses & _PLAIN if self.any_made else addresses

    def reach(self, pointers: Any, of_arguments: Any) -> Any:
        """Return which pointers are in bounds: marked ones in their tensor, unmarked if ``of_arguments``."""
        marks = np.asarray(pointers) >> np.uint64(_SHIFT)
        addresses = self.unmade(pointers)
        reached = of_arguments & ((marks == 0) | (marks >= NOWHERE))
        for mark, tensor in enumerate(self.tensors, start=1):
            reached |= (marks == mark) & (addresses >= tensor.start) & (addresses < tensor.stop)
        return reached

    def tensor_of(self, pointer: int) -> Region | None:
        """Return the tensor of a marked pointer."""
        mark = pointer >> _SHIFT
        return self.tensors[mark - 1] if 0 < mark <= len(self.tensors) else None

    def _mark(self, word: int) -> int:
        for mark, tensor in enumerate(self.tensors, start=1):
            if word in tensor:
                return mark
        found = self._tensor_at(word)
        if found is None or not any(_points_into(words, found) for words in self._loaded):
            return NOWHERE
        self.tensors.append(found)
        return len(self.tensors)

    def _tensor_at(self, word: int) -> Region | None:
        known = list(self.known())
        ours = next((tensor for tensor in known if word in tensor), None)
        if ours is not None:
            return ours
        found = next((hit for refs in self._living() if (hit := _at(word, refs)) is not None), None)
        if found is None:
            return None
        tensor, ref = found
        if any(other.start < tensor.stop and tensor.start < other.stop for other in known):
            return None
        _FOUND[:] = [ref, *(other for other in _FOUND if other is not ref and other() is not None)]
        return tensor

    def _living(self) -> Iterator[list[_Ref]]:
        """Yield the living tensors, young ones first; the old ones do not change during a launch."""
        yield _FOUND
        yield _tensors(0)
        yield _tensors(1)
        if self._old is None:
            self._old = _tensors(2)
        yield self._old


def _tensors(generation: int) -> list[_Ref]:
    kinds = (torch.Tensor, torch.nn.Parameter)
    return [weakref.ref(thing) for thing in gc.get_objects(generation) if type(thing) in kinds]


def _at(word: int, refs: list[_Ref]) -> tuple[Region, _Ref] | None:
    """Return the storage that an address lies in, and the first tensor that has it."""
    for ref in refs:
        tensor = ref()
        if tensor is None or tensor.device.type != "cpu" or tensor.layout is not torch.strided:
            continue
        storage = tensor.untyped_storage()
        start = storage.data_ptr()
        if start <= word < start + storage.nbytes():
            name = f"a tensor of {storage.nbytes()} bytes"
            return Region(name, start, start + storage.nbytes(), tensor.element_size()), ref
    return None


def _points_into(words: Any, tensor: Region) -> bool:
    return bool(((words >= tensor.start) & (words < tensor.stop)).any())
