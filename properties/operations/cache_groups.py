"""Slots of the caches that stand beside the full one: windows, compressed states, rings."""

from collections.abc import Iterator

from cumae import oracle
from cumae.oracle import Case
from cumae.properties.cases.draws import renamed
from cumae.properties.dialects import Output
from cumae.properties.operations.enlarged import far_table_rows, large_slots, largest_slots, room_for_ids
from cumae.properties.operations.operation import Operation

WINDOW_SLOTS = Operation(
    "window_slots",
    oracle.window_slots,
    (
        Output(
            "window_slots",
            "int32",
            "window_key",
            "the slots of positions max(p - window + 1, 0) … p in this order, then -1; -1 in its place for a"
            " missing block",
            shape=lambda case: (case.num_tokens_padded, case.window_columns),
            carries=("min_window_columns",),
        ),
        Output("window_lens", "int32", "token", "min(p + 1, window) positions, 0 on padding"),
    ),
    frozenset({"window", "min_window_columns", "row_index", "missing_blocks"}),
    "a token reads the slots of the last `window` positions up to its own, oldest first",
    ("cumae.gpu_impl:write_window_slots",),
    largest_slots,
)
COMPRESSED_SLOTS = Operation(
    "compressed_slots",
    oracle.compressed_slots,
    (
        Output(
            "compressed_slots",
            "int64",
            "token",
            "table[row][c // block_size] * block_size + c % block_size, c being l // compress_ratio for the"
            " token's position l on its rank; -1 if the token ends no group or has no slot of its own, and"
            " from the true token count on",
            shape=lambda case: (case.num_slots,),
            carries=("num_padding_slots",),
        ),
    ),
    frozenset(
        {
            "compress_ratio",
            "world",
            "rank",
            "interleave",
            "row_index",
            "missing_blocks",
            "num_padding_slots",
        }
    ),
    "the last token of each group of compress_ratio writes the group's state, on the rank that owns it",
    ("cumae.gpu_impl:write_compressed_slots",),
    large_slots,
    unattended="compressed states are other keys than those that attention here computes",
)


def _large_rings(case: Case) -> Iterator[Case]:
    """Yield ids whose product with the ring's capacity passes 2^31, and far table rows."""
    yield renamed(case, min(2**31 // case.options.ring.ring_capacity + 1, room_for_ids(case)))
    yield from far_table_rows(case)


RING_SLOTS = Operation(
    "ring_slots",
    oracle.ring_slots,
    (
        Output(
            "ring_slots",
            "int64",
            "token",
            "table[row][0] * ring_capacity + p % ring_capacity, -1 if that block is 0 or missing, and from"
            " the true token count on",
            shape=lambda case: (case.num_slots,),
            carries=("num_padding_slots",),
        ),
    ),
    frozenset({"ring_capacity", "row_index", "missing_blocks", "num_padding_slots"}),
    "a token takes the place of the token ring_capacity positions before it, in its request's first block",
    ("cumae.gpu_impl:write_ring_slots",),
    _large_rings,
    unattended="a ring holds the state of a compressor, not keys that attention here reads",
)
