"""SGLang's page table of a step, and its list of the slots that attention reads."""

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any

from cumae.oracle import UNTOUCHED, Case, Inputs, KvIndices, kv_indices
from cumae.properties.dialects.dialect import Input
from cumae.properties.dialects.output import Output
from cumae.properties.dialects.sglang.capture import DUMP_PAGE
from cumae.properties.dialects.sglang.step import (
    cache_seqlens,
    draft_token_num,
    extend_prefix_lens,
    forward_mode,
    num_spare_pages,
    slots_of,
)

DUMP_SLOT = 0


def num_pages(case: Case) -> list[int]:
    """Return the pages of each request, padded ones included."""
    return [-(-length // case.batch.block_size) for length in cache_seqlens(case)]


def page_columns(case: Case) -> int:
    """Return the columns of the page table."""
    return max(num_pages(case), default=0) + num_spare_pages(case)


def read_lens(case: Case) -> list[int]:
    """Return the listed keys of each request; extends and verify steps leave out their new ones."""
    if forward_mode(case.batch) == "extend":
        return extend_prefix_lens(case)
    drafts = draft_token_num(case)
    return [length - drafts for length in cache_seqlens(case)]


def num_listed(case: Case) -> int:
    """Return the entries of the list of slots."""
    return sum(read_lens(case)) + case.layout.num_spare_columns


def page_rows(answer: Any, inputs: Inputs, tail: Any = UNTOUCHED) -> list[Any]:
    """Return the pages of each request; padded ones read the dump page. ``tail``: the entries behind."""
    case = inputs.case
    width, given, found = page_columns(case), case.num_page_columns, list[Any]()
    for b, count in enumerate(num_pages(case)):
        is_live = b < len(case.batch.requests)
        row = answer.page_table[b * given : b * given + count] if is_live else [DUMP_PAGE] * count
        found += [*row, *[tail] * (width - count)]
    return found


def listed_slots(inputs: Inputs) -> KvIndices:
    """Return the list of slots as that of pages of one token; padded requests read the dump slot."""
    listed: KvIndices = inputs.once(listed_slots, lambda: _listed_slots(inputs))
    return listed


def _listed_slots(inputs: Inputs) -> KvIndices:
    case, lens = inputs.case, read_lens(inputs.case)
    rows = [slots_of(case, request).tolist() for request in case.batch.requests]
    rows += [[DUMP_SLOT] * length for length in lens[len(rows) :]]
    window = case.options.keys.window
    return kv_indices(rows, range(len(rows)), lens, len(rows), 1, num_listed(case), window)


RULE_OF_READ_KEYS = "the running sum of extend_prefix_lens in `extend`, else of seq_lens"
WHOLE_SEQUENCES: Mapping[str, Callable[[Inputs], Sequence[int]]] = {
    "whole sequences are counted: in `extend` only extend_prefix_lens are, in `verify` no drafts; "
    "`cu_seqlens_k` of sequence_layout counts whole ones, and so do decodes of one token": lambda inputs: [
        0,
        *accumulate(cache_seqlens(inputs.case)),
    ]
}
"""Another form of `kv_indptr`, by what a report says of it."""
PAGE_INPUTS = {
    "sliding_window_size": Input(lambda inputs: inputs.case.options.keys.window, ("window",)),
    "max_seq_pages": Input(lambda inputs: page_columns(inputs.case)),
}
PAGE_OUTPUTS = {
    "page_table": (
        Output(
            "page_table",
            axis="table_row",
            rule="the page of the positions from column * page_size on, 0 for a padded request; entries"
            " behind those of a request keep their values",
            shape=lambda case: (case.num_requests_padded, page_columns(case)),
            expect=page_rows,
            is_captured=False,
        ),
    ),
    "kv_indices": (
        Output(
            "kv_indptr",
            rule=f"{RULE_OF_READ_KEYS}; with a window, no request counts more than its keys in it",
            expect=lambda _, inputs: listed_slots(inputs).kv_indptr,
            is_captured=False,
            mistaken=WHOLE_SEQUENCES,
        ),
        Output(
            "kv_indices",
            axis="key",
            rule="the slots of the keys that kv_indptr counts, a request's last ones with a window; slot 0"
            " for a padded request",
            shape=lambda case: (num_listed(case),),
            expect=lambda _, inputs: listed_slots(inputs).kv_indices,
            is_captured=False,
        ),
        Output(
            "kv_last_page_len",
            rule="1 for each request: a page is one slot here",
            expect=lambda _, inputs: [1] * inputs.case.num_requests_padded,
            is_captured=False,
        ),
    ),
}
