"""Slots worked by hand."""

from cumae.oracle import Layout, Options
from cumae.properties.tests.given.worked_steps import decode, positions, prefill, slots, step


class TestSlotMapping:
    def test_a_slot_is_a_block_and_an_offset(self) -> None:
        assert slots(step(prefill(3, 3, 7, 2), block_size=4)) == [31, 8, 9]

    def test_padding_starts_at_the_true_token_count(self) -> None:
        batch = step(prefill(0, 3, 5), block_size=4)
        layout = Layout(num_padding_tokens=5, num_padding_slots=2)
        assert slots(batch, layout) == [20, 21, 22, -1, -1, -1, -1, -1, -1, -1]

    def test_a_column_beyond_the_row_has_no_slot(self) -> None:
        assert slots(step(prefill(3, 2, 5, -1), block_size=4)) == [23, -1]

    def test_a_missing_block_has_no_slots(self) -> None:
        batch = step(prefill(1, 3, -1, 6), prefill(0, 1, 9), block_size=2)
        assert slots(batch) == [-1, 12, 13, 18]

    def test_the_first_row_is_not_the_first_request_under_a_row_map(self) -> None:
        batch = step(prefill(0, 1, 5), prefill(0, 1, 9), block_size=4)
        assert slots(batch, Layout(row_index=(3, 0))) == [20, 36]

    def test_a_request_without_a_row_has_no_slots(self) -> None:
        batch = step(prefill(0, 2, 5), prefill(1, 1, 9), block_size=4)
        assert slots(batch, Layout(row_index=(-1, 0))) == [-1, -1, 37]

    def test_a_request_without_a_row_keeps_its_positions(self) -> None:
        batch = step(prefill(0, 2, 5), prefill(1, 1, 9), block_size=4)
        assert positions(batch, Layout(row_index=(-1, 0))) == [0, 1, 1]

    def test_the_product_needs_more_than_32_bits(self) -> None:
        assert slots(step(prefill(0, 1, 2**31 // 64), block_size=64)) == [2**31]

    def test_the_kernel_block_size_changes_no_slot(self) -> None:
        batch = step(prefill(3, 3, 7, 2), block_size=4)
        expected = [31, 8, 9]
        assert [slots(batch, options=Options.of(kernel_block_size=k)) for k in (1, 2, 4)] == [expected] * 3

    def test_a_rank_fills_its_blocks_with_its_own_tokens(self) -> None:
        batch = step(prefill(0, 10, 7, 2), block_size=4, world=2)
        assert slots(batch, options=Options.of(rank=0, interleave=2)) == [
            28,
            29,
            -1,
            -1,
            30,
            31,
            -1,
            -1,
            8,
            9,
        ]
        assert slots(batch, options=Options.of(rank=1, interleave=2)) == [
            -1,
            -1,
            28,
            29,
            -1,
            -1,
            30,
            31,
            -1,
            -1,
        ]

    def test_context_parallel_requests_need_fewer_blocks(self) -> None:
        assert step(prefill(0, 8, 7), block_size=4, world=2).num_live_blocks(prefill(0, 8, 7)) == 1

    def test_a_shared_prefix_is_read_from_one_block_and_written_into_two(self) -> None:
        batch = step(prefill(4, 1, 5, 1), prefill(4, 1, 5, 8), block_size=4)
        assert slots(batch) == [4, 32]

    def test_a_step_without_tokens_is_all_padding(self) -> None:
        assert slots(step(decode(2, 0, 3)), Layout(num_padding_tokens=2)) == [-1, -1]
