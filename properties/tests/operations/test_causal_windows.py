"""Windows worked by hand, and within the keys of their request."""

from itertools import islice
from typing import Any

from cumae.oracle import Batch, Case, Layout, Options, causal_windows, sequence_layout
from cumae.properties.cases.seeded import seeded_cases
from cumae.properties.tests.given.worked_steps import decode, prefill, step
from cumae.properties.tests.simulation.simulated import oracle_answer


def windows(
    batch: Batch, layout: Layout | None = None, options: Options | None = None
) -> list[tuple[Any, Any]]:
    answer = oracle_answer(causal_windows, Case(batch, layout or Layout(), options or Options()))
    return list(zip(answer["ks"], answer["ke"], strict=True))


class TestCausalWindows:
    def test_keys_are_offset_by_cached_tokens_and_rows_are_not(self) -> None:
        assert windows(step(prefill(3, 2), prefill(2, 2))) == [(0, 4), (0, 5), (5, 8), (5, 9)]

    def test_one_cached_token_is_seen_by_one_new_token(self) -> None:
        assert windows(step(prefill(1, 1))) == [(0, 2)]

    def test_context_in_the_first_request_does_not_move_the_rows_of_the_second(self) -> None:
        assert windows(step(prefill(1, 1), prefill(0, 1))) == [(0, 2), (2, 3)]

    def test_a_decode_has_no_window(self) -> None:
        assert windows(step(decode(5, 3))) == [(0, 0)] * 3

    def test_scope_all_counts_the_keys_of_decodes(self) -> None:
        assert windows(step(decode(5, 1), prefill(0, 2))) == [(0, 0), (6, 7), (6, 8)]

    def test_scope_prefill_counts_no_keys_of_decodes(self) -> None:
        batch = step(decode(5, 1), prefill(0, 2))
        assert windows(batch, options=Options.of(key_scope="prefill")) == [(0, 0), (0, 1), (0, 2)]

    def test_an_idle_request_moves_later_windows(self) -> None:
        assert windows(step(decode(4, 0), prefill(0, 1))) == [(4, 5)]

    def test_padding_has_the_empty_window(self) -> None:
        assert windows(step(prefill(2, 1)), Layout(num_padding_tokens=2)) == [(0, 3), (0, 0), (0, 0)]

    def test_compressed_starts_are_a_sum_of_floors(self) -> None:
        batch = step(prefill(0, 1), prefill(0, 1), prefill(0, 4))
        expected = [(0, 0), (0, 0), (0, 0), (0, 1), (0, 1), (0, 2)]
        assert windows(batch, options=Options.of(compress_ratio=2)) == expected

    def test_without_a_complete_group_the_window_is_empty_at_its_start(self) -> None:
        batch = step(prefill(0, 4), prefill(0, 1))
        assert windows(batch, options=Options.of(compress_ratio=2))[-1] == (2, 2)

    def test_a_sliding_window_holds_the_token_itself(self) -> None:
        assert windows(step(prefill(0, 3)), options=Options.of(window=2)) == [(0, 1), (0, 2), (1, 3)]

    def test_a_window_of_one_is_the_token_itself(self) -> None:
        assert windows(step(prefill(2, 2)), options=Options.of(window=1)) == [(2, 3), (3, 4)]

    def test_a_rank_sees_the_keys_it_holds(self) -> None:
        batch = step(prefill(7, 3), block_size=64, world=2)
        assert windows(batch, options=Options.of(rank=1)) == [(0, 4), (0, 4), (0, 5)]

    def test_a_rank_sees_the_keys_it_holds_inside_the_window(self) -> None:
        """Of positions 3 to 6, 4 to 7 and 5 to 8, rank 1 holds 3 and 5, 5 and 7, 5 and 7."""
        batch = step(prefill(6, 3), block_size=64, world=2)
        assert windows(batch, options=Options.of(rank=1, window=4)) == [(1, 3), (2, 4), (2, 4)]

    def test_ranks_share_out_the_keys_of_a_window(self) -> None:
        batch = step(prefill(6, 3), block_size=64, world=4)
        held = [windows(batch, options=Options.of(rank=r, interleave=2, window=5)) for r in range(4)]
        assert [sum(stop - start for start, stop in bounds) for bounds in zip(*held, strict=True)] == [
            5,
            5,
            5,
        ]

    def test_keys_are_compressed_before_they_are_dealt_to_ranks(self) -> None:
        """Six tokens are three pairs, of which rank 0 holds two; of its three tokens it would make one."""
        batch = step(prefill(5, 1), prefill(1, 1), block_size=64, world=2)
        assert windows(batch, options=Options.of(compress_ratio=2)) == [(0, 2), (3, 4)]
        assert windows(batch, options=Options.of(compress_ratio=2, rank=1)) == [(0, 1), (3, 3)]

    def test_an_empty_step_has_no_windows(self) -> None:
        assert windows(step()) == []

    def test_windows_lie_within_the_keys_of_their_request(self) -> None:
        for case in islice(seeded_cases(4), 300):
            answer = oracle_answer(causal_windows, case)
            cu_k = oracle_answer(sequence_layout, case)["cu_seqlens_k"]
            owners = oracle_answer(sequence_layout, case)["token_to_request"][: case.batch.num_tokens]
            for b, first, last in zip(owners, answer["ks"], answer["ke"], strict=False):
                assert isinstance(b, int) and isinstance(first, int) and isinstance(last, int)
                end = cu_k[b + 1]
                assert isinstance(end, int) and 0 <= first <= last <= end
