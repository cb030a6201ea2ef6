"""The features of keys and values of several heads, each a row as in `features`."""

from functools import partial

from cumae.oracle import HEAD_FORMATS, PAGE_ORDERS
from cumae.properties.cases.feature import Feature, row
from cumae.properties.cases.head_values import head_dims, head_format, num_heads, page_order, scale

HEADS: tuple[Feature, ...] = (
    row(
        "options",
        "head_format",
        head_format,
        engines=HEAD_FORMATS,
        shown_by=("new_keys", "new_values", "pages"),
        small=({"head_format": "fp8"}, {"head_format": "fp8_own"}, {"head_format": "int8_own"}),
    ),
    row(
        "options",
        "page_order",
        page_order,
        engines=PAGE_ORDERS,
        shown_by=("block_size",),
        small=({"page_order": "HND", "num_heads": 2}, {"page_order": "joined"}, {"page_order": "packed"}),
    ),
    row(
        "options",
        "num_heads",
        num_heads,
        engines=(1, 2, 8),
        shown_by=("new_keys", "pages"),
        small=({"num_heads": 2},),
    ),
    row(
        "options", "head_dim value_dim", head_dims, "head_dims", shown_by=("new_keys", "new_values", "pages")
    ),
    row(
        "options", "odd_heads", lambda d: d.flag("odd_heads", 30), "head_format", small=({"odd_heads": True},)
    ),
    *(
        row(
            "options",
            f"{kind}_scale_thousandths",
            partial(scale, name=f"{kind}_scale_thousandths"),
            needs={"head_format": "fp8"},
            shown_by=(f"{kind}_scale",),
        )
        for kind in ("key", "value")
    ),
)
