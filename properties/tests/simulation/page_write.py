"""Pages simulated: a table of each block's tokens, its axes moved into the order of the page at the end."""

import numpy as np

from cumae.oracle import Case
from cumae.properties.tests.simulation.tokens import Answer, lives_of, places_of

_GROUP_BYTES, _SCALE_BYTES = 16, 4
_BYTES = {"bf16": 2, "fp16": 2, "fp32": 4}


def page_write(case: Case) -> Answer:
    """Return what stands in the pages after the new tokens of a rank came one by one."""
    heads, parallel, size = case.options.heads, case.options.parallel, case.batch.block_size
    item = _BYTES.get(heads.head_format, 1)
    more = _SCALE_BYTES if heads.head_format.endswith("_own") else 0
    widths = (heads.head_dim * item + more, heads.value_dim * item + more)
    is_grouped = heads.page_order in ("packed", "shuffled")
    unit = item if is_grouped else int(np.gcd(*widths))
    shape = (case.num_cache_blocks, size, heads.num_heads)
    keys, values = (np.full((*shape, width // unit), "untouched", dtype=object) for width in widths)
    places, row = places_of(case.batch, parallel.rank, parallel.interleave), 0
    for b, life in enumerate(lives_of(case.batch)):
        for token in filter(lambda token: token.is_new, life):
            rows = case.layout.row_index
            if token in places and (rows is None or rows[b] >= 0):
                place = places[token]
                for kind, table in (("key", keys), ("value", values)):
                    for (head, number), _ in np.ndenumerate(table[place.block, place.offset]):
                        table[place.block, place.offset, head, number] = (kind, row, head, number)
            row += 1
    group = _GROUP_BYTES // item
    pages: list[object] = []
    for key, value in zip(keys, values, strict=True):
        pages += _ordered(heads.page_order, key, value, group)
    return {"pages": pages}


def _ordered(order: str, key: np.ndarray, value: np.ndarray, group: int) -> list[object]:
    """Return the tables [token, head, unit] of a block as a page."""
    if order == "joined":
        both: list[object] = np.concatenate([key, value], axis=2).ravel().tolist()
        return both
    if order == "HND":
        key, value = key.swapaxes(0, 1), value.swapaxes(0, 1)
    if order in ("packed", "shuffled"):
        tokens, heads, units = key.shape
        key = key.reshape(tokens, heads, units // group, group).transpose(1, 2, 0, 3)
        together = tokens if order == "packed" else group
        value = value.reshape(tokens // together, together, heads, -1).transpose(2, 0, 3, 1)
    return [*key.ravel().tolist(), *value.ravel().tolist()]
