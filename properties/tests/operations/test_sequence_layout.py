"""Sequence layouts worked by hand."""

from cumae.oracle import Batch, Case, Layout, Options, sequence_layout
from cumae.properties.tests.given.worked_steps import decode, prefill, step
from cumae.properties.tests.simulation.simulated import oracle_answer
from cumae.properties.tests.simulation.tokens import Answer


def layout_of(batch: Batch, layout: Layout | None = None, options: Options | None = None) -> Answer:
    return oracle_answer(sequence_layout, Case(batch, layout or Layout(), options or Options()))


class TestSequenceLayout:
    def test_cached_tokens_count_among_the_keys(self) -> None:
        assert layout_of(step(prefill(3, 2)))["cu_seqlens_k"] == [0, 5]

    def test_queries_count_new_tokens_only(self) -> None:
        assert layout_of(step(prefill(3, 2), prefill(2, 2)))["cu_seqlens_q"] == [0, 2, 4]

    def test_an_idle_request_counts_with_its_context(self) -> None:
        assert layout_of(step(decode(3, 0), prefill(0, 2)))["cu_seqlens_k"] == [0, 3, 5]

    def test_an_empty_request_has_no_row(self) -> None:
        batch = step(prefill(0, 1), prefill(0, 0), prefill(0, 2))
        assert layout_of(batch)["token_to_request"] == [0, 2, 2]

    def test_padding_tokens_belong_to_nobody(self) -> None:
        assert layout_of(step(prefill(0, 1)), Layout(num_padding_tokens=2))["token_to_request"] == [0, -1, -1]

    def test_padding_tokens_belong_to_request_zero_where_the_engine_says_so(self) -> None:
        batch = step(prefill(0, 0), prefill(0, 1))
        answer = layout_of(batch, Layout(num_padding_tokens=1), Options.of(token_padding=0))
        assert answer["token_to_request"] == [1, 0]

    def test_padded_requests_repeat_the_last_live_offset(self) -> None:
        answer = layout_of(step(prefill(4, 2)), Layout(num_padding_requests=2))
        assert (answer["cu_seqlens_q"], answer["cu_seqlens_k"]) == ([0, 2, 2, 2], [0, 6, 6, 6])

    def test_a_dummy_request_takes_the_padding_tokens(self) -> None:
        layout = Layout(num_padding_tokens=3, num_padding_requests=1)
        answer = layout_of(step(prefill(0, 5)), layout, Options.of(dummy_request=True))
        assert (answer["cu_seqlens_q"], answer["cu_seqlens_k"]) == ([0, 5, 8], [0, 5, 5])

    def test_a_dummy_request_is_no_longest_one(self) -> None:
        layout = Layout(num_padding_tokens=30, num_padding_requests=1)
        assert layout_of(step(prefill(0, 5)), layout, Options.of(dummy_request=True))["max_seqlen_q"] == [5]

    def test_the_longest_sequence_is_one_that_computes(self) -> None:
        answer = layout_of(step(decode(90, 0), prefill(4, 2), decode(7, 1)))
        assert (answer["max_seqlen_q"], answer["max_seqlen_k"]) == ([2], [8])

    def test_nothing_is_longest_in_a_step_that_computes_nothing(self) -> None:
        answer = layout_of(step(decode(9, 0)))
        assert (answer["max_seqlen_q"], answer["max_seqlen_k"]) == ([0], [0])

    def test_a_step_that_computes_nothing_has_no_query_rows(self) -> None:
        answer = layout_of(step(decode(9, 0), prefill(0, 0)), Layout(num_padding_tokens=2))
        assert (answer["cu_seqlens_q"], answer["token_to_request"]) == ([0, 0, 0], [-1, -1])

    def test_without_requests_and_tokens_only_the_first_offset_is_left(self) -> None:
        assert layout_of(step()) == {
            "cu_seqlens_q": [0],
            "cu_seqlens_k": [0],
            "token_to_request": [],
            "max_seqlen_q": [0],
            "max_seqlen_k": [0],
        }

    def test_compressed_rows_are_a_sum_of_floors(self) -> None:
        batch = step(prefill(0, 1), prefill(0, 1), prefill(0, 4))
        assert layout_of(batch, options=Options.of(compress_ratio=2))["cu_seqlens_k"] == [0, 0, 0, 2]

    def test_prefill_scope_leaves_decodes_out_of_the_keys(self) -> None:
        batch = step(decode(5, 1), prefill(0, 2))
        assert layout_of(batch, options=Options.of(key_scope="prefill"))["cu_seqlens_k"] == [0, 0, 2]
