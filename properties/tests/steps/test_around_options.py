"""Requests lie in every way about a value of an option."""

import pytest

from cumae.oracle import Case
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.features import NAMES
from cumae.properties.operations.table import OPERATIONS
from cumae.properties.steps import around_options
from cumae.properties.steps.around_options import (
    AROUND_SELECTIONS,
    AROUND_WINDOWS,
    BEYOND_SELECTIONS,
    BEYOND_WINDOWS,
    IN_ROUNDS,
)
from cumae.properties.steps.kinds import KINDS
from cumae.properties.steps.ladder import Ladder

ALL = {**AROUND_SELECTIONS, **AROUND_WINDOWS, **BEYOND_SELECTIONS, **BEYOND_WINDOWS, **IN_ROUNDS}
TABLES = Ladder(Domain(), OPERATIONS["page_table"].features)
LISTS = Ladder(Domain(), OPERATIONS["window_slots"].features)
ANY = Ladder(Domain(), NAMES - {"row_format", "head_format"})


def _made(name: str, ladder: Ladder = ANY) -> Case:
    build, sizes = ALL[name]
    case = build(ladder, sizes[0])
    assert case is not None
    return case


def test_each_stands_among_the_kinds() -> None:
    assert ALL.items() <= KINDS.items()


@pytest.mark.parametrize("window", around_options.WINDOWS)
def test_requests_end_before_at_and_behind_a_window(window: int) -> None:
    case = _made(f"about windows of {window}, in pages of 64", TABLES)
    seq_lens = {request.seq_len for request in case.batch.requests if request.query_len}
    assert {window - 1, window, window + 1, 2 * window} <= seq_lens
    assert case.options.keys.window == window and len(case.batch.requests) >= 33
    drafts = [one for one in case.batch.requests if one.phase == "decode" and one.query_len > 1]
    assert any(one.context_len > window for one in drafts)
    assert case.layout.num_padding_tokens > 64 and case.layout.num_padding_requests > 16


def test_pages_in_front_of_a_window_are_freed_and_rows_are_wider_than_it() -> None:
    freed = _made("beyond windows of 512, in pages of 64", LISTS).batch
    assert all(request.context_len > 512 for request in freed.requests)
    assert all(request.block_ids[0] == -1 for request in freed.requests if request.context_len > 576)
    wide = _made("about windows of 512, in pages of 1", LISTS)
    assert wide.window_columns > 512


@pytest.mark.parametrize("size", around_options.CHUNKS)
def test_prefills_are_multiples_of_a_chunk_and_have_more_than_eight(size: int) -> None:
    requests = _made(f"in rounds, chunks of {size} positions").batch.requests
    new = [request.query_len for request in requests]
    assert max(new) > 8 * size and sum(n > 0 and n % size == 0 for n in new) >= 3
    assert any(one.context_len == size and one.query_len == 2 * size for one in requests)
    prompts = _made(f"prompts, chunks of {size}", Ladder(Domain(), {"chunk_size"})).batch.requests
    assert {request.context_len for request in prompts} <= {0, 1}


def test_tokens_select_as_many_keys_as_a_selection_has() -> None:
    case = _made("beyond selections of 4096, in pages of 64")
    assert case.options.selection.topk == 4_096 and case.batch.num_tokens >= 33
    assert min(request.context_len for request in case.batch.requests) > 4_096
