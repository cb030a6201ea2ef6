"""Why attention cannot see what is wrong with an answer, or that it can."""

from collections.abc import Sequence
from typing import Any

from cumae.oracle import Inputs, Mark
from cumae.properties.attention.answers import Lists
from cumae.properties.attention.blind_spots import BLIND_SPOTS
from cumae.properties.attention.unread import BlindSpot


def reasons(operation: str, inputs: Inputs, right: Lists, wrong: Lists) -> set[BlindSpot | None]:
    """Return why attention cannot see the entries in which an answer differs, None among it where it can."""
    found: set[BlindSpot | None] = set()
    if not all(_fits(operation, values, wrong.get(name)) for name, values in right.items()):
        return {None}
    for name, values in right.items():
        for index, (now, then) in enumerate(zip(values, wrong[name], strict=True)):
            if type(now) is not type(then) or now != then:
                found.add(_spot_of(operation, inputs, right, wrong, name, index))
    return found


def _fits(operation: str, values: Sequence[Any], others: Any) -> bool:
    """Whether an output has as many entries as it must, all of a kind that it may have."""
    marked = operation in ("cache_write", "persistent_buffers", "prefix_interleave")
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
