"""Position ids worked by hand."""

from cumae.oracle import Layout
from cumae.properties.tests.given.worked_steps import decode, positions, prefill, step


class TestPositionIds:
    def test_a_chunk_goes_on_behind_its_cached_prefix(self) -> None:
        assert positions(step(prefill(4, 4))) == [4, 5, 6, 7]

    def test_each_request_counts_for_itself(self) -> None:
        assert positions(step(prefill(3, 2), prefill(0, 0), decode(7, 1), prefill(0, 2))) == [3, 4, 7, 0, 1]

    def test_a_one_token_chunk_stands_behind_its_context(self) -> None:
        assert positions(step(prefill(6, 1), decode(6, 1))) == [6, 6]

    def test_padding_is_zero(self) -> None:
        assert positions(step(prefill(5, 1)), Layout(num_padding_tokens=2)) == [5, 0, 0]

    def test_a_step_without_tokens_still_writes_its_padding(self) -> None:
        assert positions(step(decode(5, 0)), Layout(num_padding_tokens=2)) == [0, 0]

    def test_an_empty_step_has_no_positions(self) -> None:
        assert positions(step()) == []
