"""The row of ``allocate_slots``: slots for new tokens from the free pages."""

from cumae import oracle
from cumae.properties.dialects import Output
from cumae.properties.operations.enlarged import large_ids
from cumae.properties.operations.operation import Operation

ALLOCATE_SLOTS = Operation(
    "allocate_slots",
    oracle.allocate_slots,
    (
        Output(
            "out_cache_loc",
            "int64",
            "slot",
            "last_loc + 1 and on to the end of its page, then page * page_size and on in the pages taken,"
            " untouched behind the last new token",
        ),
        Output(
            "num_pages",
            "int32",
            "request",
            "ceil(seq_len / page_size) - ceil(prefix_len / page_size), 0 on padding",
        ),
    ),
    frozenset(),
    "new tokens fill the rest of their request's last page, then pages from the front of the free list",
    ("cumae.gpu_impl:write_allocate_slots",),
    large_ids,
)
