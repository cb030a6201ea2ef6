"""Dense attention, and attention computed through the metadata of a step."""

import doctest
from collections.abc import Sequence
from importlib import import_module
from itertools import islice, pairwise
from math import fsum, isclose

import pytest
from hypothesis import given, settings

from cumae.oracle import Batch, Case, Layout, Options, PositionIds, Request, SlotMapping, position_ids
from cumae.oracle.attention import LATENT_DIM, attention_row, dense_attention, latent_row, query_of
from cumae.properties.attention import answer_of, error_bound, judge, judged
from cumae.properties.attention.answers import right_answers
from cumae.properties.attention.parts import Key, Part, attended
from cumae.properties.attention.step import Step
from cumae.properties.cases.seeded import seeded_cases
from cumae.properties.cases.strategies import cases
from cumae.properties.tests.given.attention_steps import DOMAIN, DRAWN, fixed_steps, is_attended

SEARCHED = settings(max_examples=300, deadline=None, derandomize=False)
STREAM = [11, 5, 8, 5, 3, 0, 11, 2, 9, 14]


def request_of(
    context_len: int, query_len: int, blocks: Sequence[int] = (4, 1, 3), phase: str = "prefill"
) -> Request:
    return Request(context_len, query_len, tuple(blocks), "decode" if phase == "decode" else "prefill")


class TestDenseAttention:
    def test_a_token_sees_nothing_behind_itself(self) -> None:
        assert dense_attention(STREAM, 0)[:4] == dense_attention(STREAM[:4], 0)

    def test_a_first_token_puts_out_its_own_value(self) -> None:
        assert dense_attention(STREAM[:1], 0) == [latent_row(STREAM[0], 0)[:LATENT_DIM]]

    def test_a_window_is_the_last_tokens_own_included(self) -> None:
        assert dense_attention(STREAM, 6, window=3)[0] == attention_row(STREAM, 6, [4, 5, 6])

    def test_a_window_beyond_the_keys_is_none(self) -> None:
        assert dense_attention(STREAM, 0, window=10) == dense_attention(STREAM, 0)

    def test_a_compressed_key_is_the_mean_of_its_tokens(self) -> None:
        mean = [
            fsum(column) / 3
            for column in zip(*(latent_row(t, p) for p, t in enumerate(STREAM[:3])), strict=True)
        ]
        before, first = dense_attention(STREAM[:3], 1, compress_ratio=3)
        assert before == (0.0,) * LATENT_DIM and list(first) == mean[:LATENT_DIM]

    def test_scores_depend_on_the_distance_alone(self) -> None:
        def score(query: int, key: int) -> float:
            return fsum(q * k for q, k in zip(query_of(3, query), latent_row(5, key), strict=True))

        assert isclose(score(7, 4), score(17, 14), abs_tol=1e-14)
        assert not isclose(score(7, 4), score(7, 5), abs_tol=1e-3)

    def test_other_tokens_and_other_positions_have_rows_far_apart(self) -> None:
        rows = [latent_row(token, position) for token in range(30) for position in (0, 1, 9)]
        apart = [
            max(abs(x - y) for x, y in zip(a, b, strict=True)) for i, a in enumerate(rows) for b in rows[:i]
        ]
        assert min(apart) > 1e-3

    @pytest.mark.parametrize(
        ("changed", "error"),
        [
            ({"context_len": 3}, "context_len = 3, must be <= 2"),
            ({"window": -1}, "window = -1, must be >= 0"),
            ({"compress_ratio": 0}, "compress_ratio = 0, must be >= 1"),
        ],
    )
    def test_a_bad_number_is_refused(self, changed: dict[str, int], error: str) -> None:
        with pytest.raises(ValueError, match=f"^{error}$"):
            dense_attention([1, 2], **{"context_len": 0, **changed})


class TestMerging:
    def test_parts_of_any_size_merge_to_the_whole(self) -> None:
        keys = [Key(latent_row(token, p)) for p, token in enumerate(STREAM)]
        query = query_of(7, 10)
        whole = attended([(query, keys)])
        for cut in range(len(keys) + 1):
            merged = attended([(query, keys[:cut]), (query, []), (query, keys[cut:])])
            assert all(abs(x - y) <= error_bound(10, 2) for x, y in zip(whole, merged, strict=True))

    def test_parts_without_keys_put_out_nothing(self) -> None:
        assert attended([(query_of(7, 10), []), (query_of(7, 10), [])]) == (0.0,) * LATENT_DIM

    def test_what_nobody_wrote_shows_in_any_part(self) -> None:
        keys = [Key(latent_row(1, 0)), Key((float("nan"),) * 8)]
        for parts in ([keys], [keys[:1], keys[1:]], [keys[1:], keys[:1]]):
            assert all(x != x for x in attended([(query_of(7, 2), part) for part in parts]))


class TestEveryRoute:
    @SEARCHED
    @given(cases(domain=DOMAIN, features=DRAWN).filter(is_attended))
    def test_attention_through_the_metadata_is_dense_attention(self, case: Case) -> None:
        assert judge(case) == []

    def test_so_it_is_behind_another_step(self) -> None:
        behind = [(previous, case) for previous, case in fixed_steps() if previous is not None]
        assert len(behind) > 30
        assert [judge(case, previous=previous) for previous, case in behind] == [[]] * len(behind)

    def test_errors_stay_far_inside_the_bound_and_faults_far_outside(self) -> None:
        drawn = [case for case in islice(seeded_cases(7, DOMAIN, DRAWN), 60) if is_attended(case)]
        found = [judged(case) for case in drawn]
        assert sum(result.rows for result in found) > 1000
        assert 0 < max(result.worst for result in found) < 0.02
        shifted = {"position_ids": answer_of(positions_one_on)}
        errors = [
            f.error / f.bound
            for case in drawn
            if case.batch.world == 1
            for f in judge(case, shifted)
            if f.error > 0
        ]
        assert len(errors) > 10 and min(errors) > 1e6

    def test_mixed_speculative_and_idle_requests_with_padding(self) -> None:
        requests = (
            Request(0, 0),
            request_of(9, 3, (4, 1, 3), "decode"),
            request_of(8, 4, (4, 1, 9)),
            request_of(6, 0, (7, 8)),
            request_of(5, 1, (10, 11), "decode"),
        )
        layout = Layout(num_padding_tokens=4, num_padding_requests=2, row_index=(3, 0, 4, 2, 1))
        for topk in (1, 5, 64):
            assert (
                judge(Case(Batch(requests, 4), layout, Options.of(topk=topk, split_size=2, num_workers=3)))
                == []
            )


def positions_one_on(context_lens: list[int], query_lens: list[int], num_tokens_padded: int) -> PositionIds:
    right = position_ids(context_lens, query_lens, num_tokens_padded)
    return PositionIds([position + 1 for position in right.position_ids])


class TestChunks:
    @pytest.mark.parametrize("cuts", [(), (4,), (1, 2, 3), (5, 9), (3, 4, 8)])
    def test_a_prompt_in_chunks_puts_out_what_one_chunk_does(self, cuts: tuple[int, ...]) -> None:
        whole = dense_attention(STREAM, 0)
        assert chunked(cuts) == pytest.approx([x for row in whole for x in row], abs=error_bound(10, 4))

    def test_a_prompt_behind_a_cached_prefix_puts_out_what_one_chunk_does(self) -> None:
        holder, hit = request_of(8, 0, (4, 1)), request_of(8, 2, (4, 1, 6))
        streams = [[*STREAM[:8], 99], [*STREAM, 98]]
        step = Step(Case(Batch((holder, hit), 4)), right_answers(), None, streams)
        (expected,) = dense_attention(STREAM, 9)
        from_prefix = step.output(1, [Part([step.cached(1, p) for p in range(10)])])
        assert from_prefix == pytest.approx(expected, abs=error_bound(10, 1))
        assert judged(step.case, streams=streams).faults == []


def chunked(cuts: Sequence[int]) -> list[float]:
    """Return the outputs of the stream in chunks, each over the cache that the chunks before it wrote."""
    memories: list[dict[int, Key]] = [{}]
    found: list[float] = []
    edges = [0, *cuts, len(STREAM)]
    for start, stop in pairwise(edges):
        case = Case(Batch((request_of(start, stop - start),), 4), Layout(num_padding_tokens=1))
        streams = [[*STREAM, 99][: stop + 1]]
        assert judged(case, streams=streams, memories=memories).faults == []
        step = Step(case, right_answers(), None, streams, memories)
        for row, position in enumerate(range(start, stop)):
            found += step.output(row, [Part([step.cached(0, p) for p in range(position + 1)])])
    return found


def test_the_example_of_the_judge_holds() -> None:
    failed, attempted = doctest.testmod(import_module("cumae.properties.attention.judge"))
    assert failed == 0 and attempted > 3


class TestWhatAFaultTells:
    CASE = Case(
        Batch((request_of(2, 1, (5,), "decode"), request_of(2, 2, (3,))), 4), Layout(num_padding_tokens=1)
    )

    def test_a_wrong_position_names_request_position_row_and_operations(self) -> None:
        first, *_ = judge(self.CASE, {"position_ids": answer_of(lambda: PositionIds([2, 0, 1, 0]))})
        assert (first.request, first.position, first.row) == (1, 2, 1)
        assert "position_ids" in first.operations
        assert str(first).startswith("request 1, position 2, row 1: attention is [")
        assert "lacks the keys of positions 1, 2" in str(first)

    def test_a_token_in_another_ones_slot_is_told_by_whose_it_is(self) -> None:
        stray = answer_of(lambda: SlotMapping([22, 14, 12, -1]))
        told = [str(fault) for fault in judge(self.CASE, {"slot_mapping": stray})]
        assert any(
            "reads request 1's key of position 3, rotated" not in t and "request 1's key of position 3" in t
            for t in told
        )

    def test_a_padding_row_that_is_written_is_noticed(self) -> None:
        stale = answer_of(lambda: SlotMapping([22, 14, 15, 20]))
        assert "reads unwritten memory" in str(judge(self.CASE, {"slot_mapping": stale})[0])

    def test_two_rows_in_one_slot_are_noticed(self) -> None:
        twice = answer_of(lambda: SlotMapping([22, 14, 14, -1]))
        assert "writes rows 1 and 2 both to slot 14" in str(judge(self.CASE, {"slot_mapping": twice})[0])

    def test_an_answer_that_fits_no_buffer_is_noticed(self) -> None:
        short = answer_of(lambda: PositionIds([2, 2]))
        assert "which has 4 entries" in str(judge(self.CASE, {"position_ids": short})[0])
