"""Sources of keys worked by hand."""

import pytest

from cumae.oracle import Batch, Case, Layout, Options, prefix_interleave
from cumae.properties.tests.given.worked_steps import decode, prefill, step
from cumae.properties.tests.simulation.simulated import oracle_answer


def keys(batch: Batch, layout: Layout | None = None, options: Options | None = None) -> list[object]:
    return oracle_answer(prefix_interleave, Case(batch, layout or Layout(), options or Options()))["keys"]


class TestPrefixInterleave:
    def test_cached_rows_come_first_and_new_rows_behind_them(self) -> None:
        expected = [("cache", 7, 0), ("cache", 7, 1), ("cache", 4, 0), ("new", 0)]
        assert keys(step(prefill(3, 1, 7, 4), block_size=2)) == expected

    def test_new_rows_count_over_all_requests(self) -> None:
        batch = step(prefill(0, 2, 6), prefill(0, 0), prefill(1, 1, 3), block_size=2)
        assert keys(batch) == [("new", 0), ("new", 1), ("cache", 3, 0), ("new", 2)]

    def test_decodes_and_idle_requests_are_expanded_too(self) -> None:
        batch = step(decode(1, 1, 5), decode(2, 0, 8), prefill(0, 1, 3), block_size=2)
        assert keys(batch) == [("cache", 5, 0), ("new", 0), ("cache", 8, 0), ("cache", 8, 1), ("new", 1)]

    def test_prefill_scope_skips_decodes_but_not_their_new_rows(self) -> None:
        batch = step(decode(1, 1, 5), prefill(1, 1, 3), block_size=2)
        assert keys(batch, options=Options.of(key_scope="prefill")) == [("cache", 3, 0), ("new", 1)]

    def test_rows_behind_the_last_key_keep_what_they_held(self) -> None:
        assert keys(step(prefill(0, 1)), Layout(key_slack=2)) == [("new", 0), "untouched", "untouched"]

    def test_keys_past_the_capacity_are_dropped(self) -> None:
        assert keys(step(prefill(1, 2, 9), block_size=4), Layout(key_slack=-2)) == [("cache", 9, 0)]

    def test_a_shared_block_is_read_twice(self) -> None:
        batch = step(prefill(2, 1, 5, 1), prefill(2, 1, 5, 8), block_size=2)
        shared = [("cache", 5, 0), ("cache", 5, 1)]
        assert keys(batch) == [*shared, ("new", 0), *shared, ("new", 1)]

    def test_a_cached_token_without_a_block_is_refused(self) -> None:
        with pytest.raises(ValueError, match=r"block_table\[0\]\[0\] = -1, must hold a block"):
            keys(step(prefill(2, 1, -1, 6), block_size=2))

    def test_a_cached_token_beyond_the_table_is_refused(self) -> None:
        with pytest.raises(ValueError, match=r"block_table\[0\]\[1\] = None, must hold a block"):
            keys(step(prefill(3, 1, 6, -1), block_size=2))

    def test_a_new_token_needs_no_block(self) -> None:
        assert keys(step(prefill(2, 1, 6, -1), block_size=2))[-1] == ("new", 0)

    def test_an_empty_step_has_no_keys(self) -> None:
        assert keys(step()) == []
