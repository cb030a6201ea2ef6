"""Facts about steps of several prompts, and about steps in heads as models have them."""

import pytest

from cumae.oracle import Case
from cumae.oracle.model.drafts import num_drafts_of
from cumae.properties.steps.crowds_of_prompts import CROWDS
from cumae.properties.steps.deep_heads import DEEP_HEADS
from cumae.properties.steps.kinds import KINDS
from cumae.properties.tests.given.kinds import smallest


def _lens(case: Case, phase: str) -> list[tuple[int, int]]:
    return [(r.context_len, r.query_len) for r in case.batch.requests if r.phase == phase]


def test_each_stands_among_the_kinds() -> None:
    assert {*CROWDS, *DEEP_HEADS} <= {*KINDS}


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [
        ("prompts beyond long windows", "window", 1_024),
        ("prompts on ranks", "world", 2),
        ("prompts in long groups", "compress_ratio", 128),
    ],
)
def test_prompts_begin_under_an_option(name: str, option: str, value: int) -> None:
    case = smallest(name)
    held = case.batch.world if option == "world" else getattr(case.options.keys, option)
    assert held == value
    lens = _lens(case, "prefill")
    assert len(lens) == 5 and {cached for cached, _ in lens} == {0}
    assert all(new > value for _, new in lens)


def test_sequences_begin_inside_chunks_by_position() -> None:
    case = smallest("many chunks by position")
    assert case.options.chunks.absolute_chunks
    assert (
        sum(cached % 64 > 0 and (cached + new) // 64 > cached // 64 for cached, new in _lens(case, "prefill"))
        > 24
    )


def test_decodes_stand_behind_or_before_what_is_beside_them() -> None:
    first = [r.query_len for r in smallest("prompts in chunks, before decodes").batch.requests]
    assert min(first[:4]) >= 520 and {*first[4:]} == {1}
    last = [r.query_len for r in smallest("a chunk by position, behind decodes").batch.requests]
    assert {*last[:-1]} == {1} and last[-1] == 600


def test_all_decodes_see_more_keys_than_are_selected() -> None:
    for name in ("deep selections and a chunk", "deep selections for 148 workers"):
        case = smallest(name)
        assert min(cached for cached, _ in _lens(case, "decode")) > case.options.selection.topk == 2_048
    assert case.options.schedule.num_workers == 148


def test_chunks_beside_drafts_verify_none() -> None:
    requests = smallest("drafts and chunks").batch.requests
    assert [num_drafts_of(r, 3) for r in requests] == [3] * 67 + [0] * 2


@pytest.mark.parametrize(
    ("name", "block_size"),
    [
        ("deep decodes in pages of 64", 64),
        ("decodes and a chunk in pages of 64", 64),
        ("decodes and a chunk in slots", 1),
        ("hundreds of decodes in slots", 1),
        ("windows in slots", 1),
    ],
)
def test_pages_are_small(name: str, block_size: int) -> None:
    case = smallest(name)
    assert case.batch.block_size == case.kernel_block_size == block_size


def test_heads_are_those_of_models() -> None:
    for name in DEEP_HEADS:
        heads = smallest(name).options.heads
        assert heads.num_heads == 8 and heads.head_dim == heads.value_dim in (16, 64, 128)
    assert smallest("a long prefix in 8 heads").batch.requests[0].context_len * 8 * 128 > 2**24
    for name in ("a prefill of 8 slim heads, HND", "a long prefix in 8 slim heads of fp8"):
        assert smallest(name).batch.requests[0].seq_len * 8 > 65_535


def test_short_prompts_are_long_when_their_pages_are_counted() -> None:
    case = smallest("short prompts in large units")
    assert {new for _, new in _lens(case, "prefill")} == {1, 2, 3}
    pages = sum(-(-request.seq_len // case.batch.block_size) for request in case.batch.requests)
    assert pages * case.batch.block_size > 100 * case.batch.num_tokens
    assert case.options.chunks.chunk_size == 512
