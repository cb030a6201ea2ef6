"""Facts about steps that end with groups, rings, chunks or tiles, and about requests alone in a graph."""

import pytest

from cumae.oracle.model.drafts import num_drafts_of
from cumae.properties.steps.coincidences import COINCIDING, PADDED
from cumae.properties.tests.given.kinds import smallest


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("groups of 128 that end together", 128),
        ("groups of 4 that end together", 4),
        ("chunks that end together, padded", 64),
    ],
)
def test_each_token_is_the_last_of_a_group_or_chunk(name: str, unit: int) -> None:
    assert {r.seq_len % unit for r in smallest(name).batch.requests} == {0}


def test_each_token_is_the_first_of_a_round() -> None:
    assert {r.context_len % 192 for r in smallest("rings of 192 that begin together").batch.requests} == {0}


def test_each_prompt_is_two_whole_chunks() -> None:
    for name in ("prompts of two whole chunks", "prompts of two whole chunks by position"):
        case = smallest(name)
        assert {r.query_len for r in case.batch.requests} == {2 * case.options.chunks.chunk_size}


def test_samples_fill_a_tile_and_drafts_are_as_many_as_the_first_times_the_requests() -> None:
    case = smallest("drafts in whole tiles")
    counts = [num_drafts_of(r, case.options.drafts.max_drafts) for r in case.batch.requests]
    assert {*counts} == {3} and sum(counts) + len(counts) == 512
    case = smallest("drafts around the first one's")
    counts = [num_drafts_of(r, case.options.drafts.max_drafts) for r in case.batch.requests]
    assert sum(counts) == len(counts) * counts[0] and len({*counts}) == 3


def test_a_chunk_ends_groups_in_two_pages() -> None:
    case = smallest("a chunk of groups in two pages")
    chunk = case.batch.requests[0]
    assert chunk.context_len < case.options.keys.compress_ratio * case.batch.block_size < chunk.seq_len


def test_one_request_is_alone_in_a_graph() -> None:
    for name in COINCIDING:
        if "alone in a graph" in name:
            case = smallest(name)
            assert (len(case.batch.requests), case.layout.num_padding_requests) == (1, PADDED)
