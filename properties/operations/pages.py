"""Pages that attention reads: a table of them, and the list of them."""

from cumae import oracle
from cumae.properties.dialects import Output
from cumae.properties.operations.enlarged import far_table_rows
from cumae.properties.operations.operation import Operation

PAGE_TABLE = Operation(
    "page_table",
    oracle.page_table,
    (
        Output(
            "page_table",
            "int32",
            "page_column",
            "the block of the positions from column * tokens_per_entry on, -1 without a block; 0 from"
            " ceil(seq_len / tokens_per_entry) on, before the window, and on padding",
            shape=lambda case: (case.num_requests_padded, case.num_page_columns),
            carries=("page_slack",),
        ),
    ),
    frozenset({"row_index", "missing_blocks", "world", "kernel_block_size", "window", "page_slack"}),
    "each live request has a row of the blocks of its positions, and 0 in every other column",
    ("cumae.gpu_impl:write_page_table",),
    far_table_rows,
)
KV_INDICES = Operation(
    "kv_indices",
    oracle.kv_indices,
    (
        Output("kv_indptr", "int32", "request_start", "the running sum of the pages with keys"),
        Output(
            "kv_indices",
            "int32",
            "listed_page",
            "the request's blocks that hold keys, in order of position, -1 without a block",
            shape=lambda case: (case.num_page_indices,),
            carries=("page_slack",),
            is_list=True,
        ),
        Output("kv_last_page_len", "int32", "request", "(seq_len - 1) % block_size + 1, 0 without a token"),
    ),
    frozenset({"row_index", "missing_blocks", "window", "page_slack"}),
    "the pages that hold keys of each request stand behind those of the request before",
    ("cumae.gpu_impl:write_kv_indices",),
    far_table_rows,
)
