"""The features of a layout, each a row as in `features`."""

from collections.abc import Iterable

from cumae.oracle import GARBAGE_KINDS, INDEX_DTYPES, Case
from cumae.properties.cases.feature import BOTH, Feature, always, row
from cumae.properties.cases.values import context_slack, row_index, spare_blocks


def _unseen(case: Case) -> bool:
    """Return False: a function that no input tells of the feature cannot see it."""
    return False


def _half(counts: Iterable[int]) -> int:
    """Return the slack with which half of a buffer for so many elements in all is missing."""
    return -(sum(counts) // 2)


LAYOUT: tuple[Feature, ...] = (
    row(
        "layout",
        "num_padding_slots",
        lambda d: d.pick("num_padding_slots", (0, 0, 1, 5)) if d.is_padded else 0,
        shown_by=("num_slots", "slot_mapping"),
    ),
    row(
        "layout",
        "key_slack",
        lambda d: d.pick("key_slack", (0, 0, 0, 1, 9, -1, -3, _half(r.seq_len for r in d.batch.requests))),
        small=({"key_slack": -1}, {"key_slack": 1}),
        shown_by=("capacity", "read_capacity"),
    ),
    row(
        "layout",
        "row_index",
        row_index,
        small=({"row_index": (1, 0), "num_padding_slots": 1}, {"row_index": (-1, 0)}),
        shown_by=("slot_mapping",),
    ),
    always("num_spare_rows", lambda d: d.choices.pick((0, 0, 1, 2))),
    always("num_spare_columns", lambda d: d.choices.pick((0, 1, 3))),
    always("num_spare_blocks", spare_blocks),
    always("table_row_gap", lambda d: d.choices.pick((0, 1, 3)) if d.strided else 0),
    always("table_row_multiple", lambda d: d.choices.pick((1, 1, 1, 16, 64, 1024)) if d.strided else 1),
    always("table_column_step", lambda d: d.choices.pick((1, 1, 2, 3)) if d.strided else 1),
    always("table_order", lambda d: d.choices.pick(("row", "row", "column")) if d.strided else "row"),
    always("cache_row_gap", lambda d: d.choices.pick((0, 1, 8)) if d.strided else 0),
    always("cache_block_gap", lambda d: d.choices.pick((0, 0, 1, 24)) if d.strided else 0),
    always("cache_in_turns", lambda d: d.strided and d.choices.chance(20)),
    always("new_row_gap", lambda d: d.choices.pick((0, 1, 8, 300)) if d.strided else 0),
    always("key_row_gap", lambda d: d.choices.pick((0, 1, 8)) if d.strided else 0),
    always("vector_step", lambda d: d.choices.pick((1, 2, 3)) if d.strided else 1),
    always("storage_offset", lambda d: d.choices.pick((0, 0, 0, 1, 2, 3, 4, 5, 8)) if d.strided else 0),
    always("garbage", lambda d: d.choices.pick(GARBAGE_KINDS)),
    always("index_dtype", lambda d: d.pick("index_dtype", INDEX_DTYPES), engines=INDEX_DTYPES),
    row(
        "layout",
        "context_slack",
        context_slack,
        small=({"context_slack": 3},),
        shown_by=("max_context_len",),
        varies=_unseen,
    ),
    row(
        "layout",
        "page_slack",
        lambda d: d.pick(
            "page_slack",
            (0, 0, 0, 1, 9, -1, -3, _half([max((len(r.block_ids) for r in d.batch.requests), default=0)])),
        ),
        small=({"page_slack": -1}, {"page_slack": 1}),
        shown_by=("num_page_columns", "num_page_indices"),
    ),
    row(
        "layout",
        "num_spare_tokens",
        lambda d: d.pick("num_spare_tokens", (0, 0, 1, 5, 40)),
        shown_by=("max_num_tokens", "new_latents", "new_keys"),
        varies=_unseen,
    ),
    row(
        "layout",
        "host_lens",
        lambda d: d.flag("host_lens", 15, odd=False),
        engines=BOTH,
        shown_by=("context_lens_cpu", "query_lens_cpu"),
    ),
)
