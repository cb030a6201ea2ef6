"""The sizes that a function shows, in its source and in its launches, the most telling ones first."""

from collections import Counter
from dataclasses import fields
from typing import Any

from cumae.oracle import Case
from cumae.oracle.model.options import GROUP_OF
from cumae.properties.operations.constants import constants_of

MOST = 16
LEAST, LARGEST = 8, 2**24
"""Smaller sizes are drawn anyway; larger ones are those of `survives_large_ids`."""
SHARE = 4
"""One case in so many, and two at least, must show a number in a launch that no size of it explains."""


class NamedSizes:
    """Collects the sizes of one function over the cases that it runs on."""

    def __init__(self, function: Any) -> None:
        self._constants = constants_of(function)
        self._shown: Counter[int] = Counter()
        self._cases = 0

    def note(self, case: Case, shown: Counter[int]) -> None:
        """Note the numbers that the launches on a case showed, but for those that repeat one of its sizes."""
        self._cases += bool(shown)
        own = sizes_of(case)
        self._shown.update(number for number in shown if number not in own)

    def sizes(self) -> tuple[int, ...]:
        """Return at most 16 sizes: those of launches first, among them first those in the source too."""
        often = max(2, self._cases // SHARE)
        launched = [size for size, times in self._shown.most_common() if times >= often]
        launched.sort(key=lambda size: size not in self._constants)
        usable = [size for size in dict.fromkeys((*launched, *self._constants)) if LEAST <= size <= LARGEST]
        # A mask names the size after it.
        return tuple(size for size in usable if size & size + 1 or size + 1 not in usable)[:MOST]


def sizes_of(case: Case) -> set[int]:
    """Return every size of a case, and the power of two that holds it, as launchers compute it."""
    batch, layout = case.batch, case.layout
    width = max((len(request.block_ids) for request in batch.requests), default=0) + layout.num_spare_columns
    totals = (
        len(batch.requests),
        case.num_requests_padded,
        batch.num_tokens,
        case.num_tokens_padded,
        case.num_slots,
        case.max_num_tokens,
        case.num_keys,
        case.capacity,
        case.read_capacity,
        case.num_cache_blocks,
        case.max_context_len,
        case.max_work_items,
        case.num_page_columns,
        case.num_page_indices,
        case.max_sequence_chunks,
        case.kernel_block_size,
        batch.block_size,
        batch.tokens_per_block,
        batch.world,
        width,
        max(width, layout.min_table_columns),
        case.options.rows.row_bytes,
    )
    lens = {length for r in batch.requests for length in (r.context_len, r.query_len, r.seq_len)}
    chosen = {getattr(layout, one.name) for one in fields(layout)} | {case.options.value(n) for n in GROUP_OF}
    plain = {value for value in (*totals, *lens, *chosen) if type(value) is int}
    return plain | {1 << max(value - 1, 0).bit_length() for value in plain if 0 < value < LARGEST}
