"""Facts of a function that decide which promises may help it."""

from cumae.oracle import Batch, Case, Inputs, Request
from cumae.properties.dialects.held import shown
from cumae.properties.operations.binding import Binding

_LENS = ((3, 2), (0, 5), (1, 4))
_SMALL = Batch(tuple(Request(*lens, (2 * b, 2 * b + 1)) for b, lens in enumerate(_LENS)), 4)
_LARGE = Batch(tuple(Request(*lens, (b,)) for b, lens in enumerate(_LENS)), 8)
"""One step in blocks of two sizes."""
_PACKS = ("position_ids", "sequence_chunks", "sequence_layout")
"""Operations that code for whole sequences has, too: it packs them, and none has cached tokens."""


def seen_by(binding: Binding) -> frozenset[str]:
    """Return "block_size" if a function sees it, "whole_sequences" and "windows" if it may be for these."""
    name = binding.operation.name
    found = {"whole_sequences"} if name in _PACKS else {"windows"} if name == "window_slots" else set[str]()
    small, large = (_shown(binding, Case(batch)) for batch in (_SMALL, _LARGE))
    if small != large or any(binding.forms[name].is_in_place for name in binding.outputs):
        found.add("block_size")
    return frozenset(found)


def _shown(binding: Binding, case: Case) -> list[str]:
    """Return what a function gets in a case, as text, its constructor included."""
    known, inputs, names = binding.dialect.inputs, Inputs(case), (*binding.constructor, *binding.inputs)
    return [shown(known[name].hold(inputs)) for name in names if name in known]
