"""Keys and values of several heads, written into the pages of a cache."""

from cumae import oracle
from cumae.properties.dialects import Output
from cumae.properties.dialects.heads import page_dtype, page_shape, pages_before, pieces_of
from cumae.properties.operations.enlarged import far_pages
from cumae.properties.operations.operation import Operation

PAGE_WRITE = Operation(
    "page_write",
    oracle.page_write,
    (
        Output(
            "pages",
            page_dtype,
            "page_unit",
            "the unit of the key or value of the token whose slot it belongs to; without one, the old"
            " content. Numbers are copied, or become bytes: x / scale in fp8, or with a scale of their own"
            " behind them, s = max(amax / 448 or 127, 1e-6), x * (1 / s) in fp8 or int8",
            shape=page_shape,
            pieces=pieces_of("new_keys", "new_values"),
            before=pages_before,
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
            "num_spare_tokens",
            "num_padding_slots",
            "missing_blocks",
            "row_index",
            "world",
            "rank",
            "interleave",
        }
    ),
    "each unit of a new key or value is written to its place in the page of its slot; no other bit changes",
    ("cumae.gpu_impl:write_pages",),
    far_pages,
    unattended="attention here reads one row a token, whatever the order of a page",
)
