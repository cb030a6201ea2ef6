"""Keys and values of several heads, gathered out of the pages of a cache."""

from cumae import oracle
from cumae.properties.dialects.pages_read import gathered
from cumae.properties.operations.enlarged import far_read_pages
from cumae.properties.operations.operation import Operation

PAGE_READ = Operation(
    "page_read",
    oracle.page_read,
    (
        gathered("key", rule="the key of the row's position, from the page of its block"),
        gathered(
            "value",
            rule="the value of the row's position, from the page of its block. Both are copied with any scale"
            " of their own; fp8 numbers with a given scale become bf16(x * scale)",
        ),
    ),
    frozenset(
        {
            "head_format",
            "page_order",
            "num_heads",
            "head_dims",
            "key_scale_thousandths",
            "value_scale_thousandths",
            "key_slack",
            "window",
            "missing_blocks",
            "row_index",
        }
    ),
    "keys and values of each request stand in order of position, request after request",
    ("cumae.gpu_impl:read_pages",),
    far_read_pages,
    unattended="attention here reads one row a token, whatever the order of a page",
)
