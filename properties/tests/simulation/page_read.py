"""Pages read token by token: each page's units are numbered once, and the axes moved to token, head, unit."""

from collections import deque

import numpy as np

from cumae.oracle import Case
from cumae.properties.tests.simulation.tokens import Answer, Place, lives_of, places_of


def page_read(case: Case) -> Answer:
    """Return the unit of the pages that each unit of the outputs is copied from, request after request."""
    layout, heads = case.layout, case.options.heads
    places = places_of(case.batch, 0, 1)
    found: list[Place | None] = []
    for b, life in enumerate(lives_of(case.batch)):
        has_row = layout.row_index is None or layout.row_index[b] >= 0
        for token in deque(life, maxlen=case.options.keys.window or None):
            found.append(places.get(token) if has_row else None)
    while len(found) < case.read_capacity:
        found.append(None)
    while len(found) > case.read_capacity:
        found.pop()
    shape = (case.batch.block_size, heads.num_heads, heads.key_units, heads.value_units)
    key, value = _numbered(heads.page_order, *shape, heads.group_items)
    return {"keys": _units(found, key), "values": _units(found, value)}


def _units(found: list[Place | None], numbers: np.ndarray) -> list[object]:
    """Return the units of each row, whose place has the numbers [token, head, unit] of a page."""
    units: list[object] = []
    for place in found:
        if place is None:
            units += ["untouched"] * numbers[0].size
        else:
            units += [("page", place.block, number) for number in numbers[place.offset].ravel().tolist()]
    return units


def _numbered(
    order: str, tokens: int, heads: int, key: int, value: int, group: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of a page's units as the tables [token, head, unit] of its keys and its values."""
    page = np.arange(tokens * heads * (key + value))
    if order == "joined":
        of_keys, of_values = np.split(page.reshape(tokens, heads, key + value), [key], axis=2)
        return of_keys, of_values
    of_keys, of_values = np.split(page, [tokens * heads * key])
    if order == "NHD":
        return of_keys.reshape(tokens, heads, key), of_values.reshape(tokens, heads, value)
    if order == "HND":
        by_head = of_keys.reshape(heads, tokens, key), of_values.reshape(heads, tokens, value)
        return by_head[0].swapaxes(0, 1), by_head[1].swapaxes(0, 1)
    of_keys = of_keys.reshape(heads, key // group, tokens, group)
    together = tokens if order == "packed" else group
    of_values = of_values.reshape(heads, tokens // together, value, together)
    return (
        of_keys.transpose(2, 0, 1, 3).reshape(tokens, heads, key),
        of_values.transpose(1, 3, 0, 2).reshape(tokens, heads, value),
    )
