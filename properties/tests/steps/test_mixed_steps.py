"""Facts about steps of decodes and chunks that are padded, idle, share a prompt or lack pages."""

import pytest

from cumae.oracle import Case
from cumae.oracle.model.drafts import num_drafts_of
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.features import NAMES
from cumae.properties.steps.kinds import KINDS
from cumae.properties.steps.ladder import Ladder
from cumae.properties.steps.mixed_steps import MIXED, TILE, WINDOW
from cumae.properties.tests.given.kinds import smallest


def _new(case: Case) -> list[int]:
    return [request.query_len for request in case.batch.requests]


def test_each_stands_among_the_kinds() -> None:
    assert MIXED.items() <= KINDS.items()


@pytest.mark.parametrize("kind", ["decodes", "drafts"])
def test_a_mixed_step_is_padded_in_tokens_alone(kind: str) -> None:
    case = smallest(f"{kind} and a chunk, padded in tokens")
    assert case.layout.num_padding_tokens > 0 == case.layout.num_padding_requests
    assert case.num_tokens_padded % TILE == 0
    assert [r.phase for r in case.batch.requests] == ["decode"] * 19 + ["prefill"]


@pytest.mark.parametrize(("name", "each"), [("a graph", 1), ("a graph of drafts", 4)])
def test_a_graph_with_idle_ones_has_as_many_rows_as_without(name: str, each: int) -> None:
    case = smallest(f"idle ones in {name}")
    assert {0, each} == {*_new(case)}
    assert case.num_tokens_padded == each * case.num_requests_padded


@pytest.mark.parametrize("kind", ["decodes", "drafts"])
def test_all_are_behind_one_prompt(kind: str) -> None:
    requests = smallest(f"{kind} and a chunk behind one prompt").batch.requests
    assert len({r.block_ids[:2] for r in requests}) == 1 < len({r.block_ids for r in requests})


@pytest.mark.parametrize("name", ["decodes and a chunk in windows", "drafts in windows"])
def test_no_page_in_a_window_is_freed(name: str) -> None:
    case = smallest(name)
    size, window = case.batch.tokens_per_block, case.options.keys.window
    assert window == WINDOW
    freed = [r.block_ids.count(-1) for r in case.batch.requests]
    assert max(freed) > 1
    first_seen = [r.context_len + 1 - window for r in case.batch.requests]
    assert all(count * size <= max(first, 0) for count, first in zip(freed, first_seen, strict=True))


def test_one_has_no_row() -> None:
    for name in ("decodes and a chunk with holes", "decodes with holes in a graph"):
        rows = smallest(name).layout.row_index
        assert rows is not None and -1 in rows


def test_drafts_are_all_there_are() -> None:
    case = smallest("few deep drafts")
    assert [num_drafts_of(r, 3) for r in case.batch.requests] == [3] * 3
    assert min(r.context_len for r in case.batch.requests) >= 2_048


@pytest.mark.parametrize(
    ("name", "rest"),
    [("full pages in a graph", 0), ("full pages of drafts", 0), ("pages begun by drafts", 4)],
)
def test_lengths_end_or_begin_with_pages(name: str, rest: int) -> None:
    case = smallest(name)
    assert {r.seq_len % case.batch.block_size for r in case.batch.requests} == {rest}


def test_windows_begin_with_pages() -> None:
    case = smallest("full pages in windows")
    begins = [r.seq_len - case.options.keys.window for r in case.batch.requests]
    assert min(begins) > 0 and not any(begin % case.batch.block_size for begin in begins)


def test_a_buffer_lacks_rows_and_a_table_columns() -> None:
    assert smallest("decodes and a chunk in a small buffer").layout.key_slack < 0
    assert smallest("decodes and a chunk in a narrow table").layout.page_slack < 0


@pytest.mark.parametrize("name", MIXED)
def test_steps_stay_in_a_domain(name: str) -> None:
    domain = Domain(padding="none", missing_blocks=False, block_sizes=(64,), max_context_len=500)
    build, sizes = MIXED[name]
    case = build(Ladder(domain, NAMES), sizes[0])
    assert case is None or domain.why_not(case) is None


def test_all_are_idle_in_a_graph_that_has_rows_for_them() -> None:
    case = smallest("all idle in a graph")
    assert _new(case) == [0] * 19 and min(r.context_len for r in case.batch.requests) > 0
    assert case.num_tokens_padded == case.num_requests_padded == 2 * TILE
