"""The blind spots that explain why attention does not see a wrong answer."""

from collections.abc import Sequence
from typing import Any

from cumae.oracle import Inputs, Mark
from cumae.properties.attention.answers import Lists
from cumae.properties.attention.blind_spots import BLIND_SPOTS, BlindSpot

MARKED = ("cache_write", "persistent_buffers", "prefix_interleave", "kv_indices", "allocate_slots")
"""Operations whose answers may hold marks or sources of rows beside numbers."""


def reasons(operation: str, inputs: Inputs, right: Lists, wrong: Lists) -> set[BlindSpot | None]:
    """Return the blind spots of the entries in which an answer differs, with None for visible entries."""
    found: set[BlindSpot | None] = set()
    if not all(_fits(operation, values, wrong.get(name)) for name, values in right.items()):
        return {None}
    for name, values in right.items():
        for index, (now, then) in enumerate(zip(values, wrong[name], strict=True)):
            if type(now) is not type(then) or now != then:
                found.add(_spot_of(operation, inputs, right, wrong, name, index))
    return found


def _fits(operation: str, values: Sequence[Any], others: Any) -> bool:
    """Return whether an output has the right number of entries, all of an allowed kind."""
    marked = operation in MARKED
    kinds = (int, Mark, tuple) if marked else (int,)
    if not isinstance(others, (list, tuple)) or len(others) != len(values):
        return False
    return all(isinstance(number, kinds) for other in others for number in _numbers(other))


def _numbers(entry: Any) -> tuple[Any, ...]:
    return entry[1:] if isinstance(entry, tuple) else (entry,)


def _spot_of(
    operation: str, inputs: Inputs, right: Lists, wrong: Lists, name: str, index: int
) -> BlindSpot | None:
    for spot in BLIND_SPOTS:
        if operation in spot.operations and name in spot.outputs and spot.holds(inputs, right, wrong, index):
            return spot
    return None
