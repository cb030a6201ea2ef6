"""Facts about steps of long documents."""

import pytest

from cumae.oracle import Case, Inputs
from cumae.oracle.model.drafts import num_drafts_of
from cumae.properties.steps.documents import DOCUMENTS
from cumae.properties.steps.kinds import KINDS
from cumae.properties.tests.given.kinds import smallest


def _places_of_long(case: Case) -> list[int]:
    contexts = [request.context_len for request in case.batch.requests]
    assert max(n for n in contexts if n < 8_192) < 1_024
    return [b for b, context_len in enumerate(contexts) if context_len >= 8_192]


def test_each_stands_among_the_kinds() -> None:
    assert DOCUMENTS.items() <= KINDS.items()


@pytest.mark.parametrize(
    ("name", "places"),
    [
        ("documents among chats", [2, 9, 16]),
        ("documents among chats, on ranks", [2, 9, 16]),
        ("the last far", [18]),
        ("documents beside turns", [2, 10]),
    ],
)
def test_long_ones_stand_apart(name: str, places: list[int]) -> None:
    case = smallest(name)
    assert _places_of_long(case) == places
    assert (case.batch.world > 1) == ("ranks" in name)


def test_documents_beside_turns_go_through_the_workspace_several_times() -> None:
    case = smallest("documents beside turns")
    share = Inputs(case)["workspace_tokens"] // len(case.batch.requests)
    assert all(case.batch.requests[place].context_len > 7 * share for place in _places_of_long(case))


@pytest.mark.parametrize("name", [name for name in DOCUMENTS if "whole chunk" in name])
def test_a_whole_chunk_is_the_third(name: str) -> None:
    (request,) = smallest(name).batch.requests
    assert (request.context_len, request.query_len) == (16_384, 8_192)


@pytest.mark.parametrize(("name", "tile"), [("whole tiles of keys", 4_096), ("a whole tile of keys", 1_024)])
def test_keys_fill_tiles(name: str, tile: int) -> None:
    lens = [request.seq_len for request in smallest(name).batch.requests]
    assert sum(lens) % tile == 0
    assert len(set(lens)) > 3


def test_drafts_fill_tiles() -> None:
    case = smallest("whole tiles of drafts")
    drafts = [num_drafts_of(request, case.options.drafts.max_drafts) for request in case.batch.requests]
    assert sum(drafts) == 256
    assert len(set(drafts)) > 3


def test_drafts_before_prompts_have_no_keys() -> None:
    case = smallest("drafts before prompts")
    assert case.options.keys.key_scope == "prefill"
    assert [num_drafts_of(request, 3) for request in case.batch.requests][:9] == [3] * 9
    assert [request.context_len > 0 for request in case.batch.requests[9:]] == [True, False]


def test_each_second_one_is_long() -> None:
    contexts = [request.context_len for request in smallest("long and short in turns").batch.requests]
    assert max(contexts[::2]) < 1_024
    assert min(contexts[1::2]) > 2_048


def test_few_verify_drafts() -> None:
    case = smallest("few drafts")
    drafts = [num_drafts_of(request, 7) for request in case.batch.requests]
    assert [(b, drafts) for b, drafts in enumerate(drafts) if drafts] == [(2, 4), (9, 2), (16, 7)]


def test_a_short_one_stands_behind_those_of_many_pages() -> None:
    contexts = [request.context_len for request in smallest("a short one behind").batch.requests]
    assert min(contexts[:-1]) > 512
    assert contexts[-1] < 16


def test_some_lie_beyond_a_long_window() -> None:
    case = smallest("across a long window")
    beyond = [r.context_len > case.options.keys.window + 64 for r in case.batch.requests]
    assert case.options.keys.window == 1_024
    assert beyond == [b % 2 == 1 for b in range(19)]
    chunks = smallest("chunks beyond a long window")
    assert {r.query_len for r in chunks.batch.requests} == {512}
    assert all(r.context_len > chunks.options.keys.window == 1_024 for r in chunks.batch.requests)


def test_prompts_in_chunks_stand_behind_decodes() -> None:
    case = smallest("prompts behind decodes, in chunks")
    assert [r.query_len for r in case.batch.requests] == [1] * 130 + [1_030, 1_300]
    assert case.options.chunks.chunk_size == 64


def test_deep_ones_lie_in_pages_of_a_token_and_at_the_ends_of_groups() -> None:
    slots = smallest("deep in slots")
    assert slots.batch.block_size == 1
    assert all(r.context_len > 16_384 for r in slots.batch.requests)
    groups = smallest("deep in groups")
    ends = [r.seq_len % 128 == 0 for r in groups.batch.requests]
    assert groups.options.keys.compress_ratio == 128
    assert all(ends[::4])
    assert all(r.context_len > 16_384 for r in groups.batch.requests)
