"""When a cached schedule is kept and when it is built anew."""

from itertools import pairwise

import pytest

from cumae.oracle import Inputs, metadata_cache
from cumae.properties.tests.given.scheduled_steps import case_of, rebuilt
from cumae.properties.tests.simulation.simulated import oracle_answer


class TestMetadataCache:
    def test_without_a_step_before_it_builds(self) -> None:
        assert rebuilt(None, case_of((5, 1))) == [1]
        assert rebuilt(None, case_of()) == [1]

    def test_the_same_step_again_keeps(self) -> None:
        assert rebuilt(case_of((0, 3), (4, 1)), case_of((0, 3), (4, 1))) == [0]

    def test_a_steady_decode_beyond_topk_never_rebuilds(self) -> None:
        trace = [case_of((7 + i, 1), (9 + i, 2), topk=8) for i in range(40)]
        counts = [rebuilt(before, now) for before, now in zip([None, *trace], trace, strict=False)]
        assert counts == [[1], *[[0]] * 39]

    def test_a_decode_rebuilds_until_it_has_topk_keys(self) -> None:
        trace = [case_of((1 + i, 1), topk=4) for i in range(6)]
        counts = [rebuilt(before, now) for before, now in pairwise(trace)]
        assert counts == [[1], [1], [0], [0], [0]]

    def test_more_padding_is_another_step(self) -> None:
        assert rebuilt(case_of((5, 1)), case_of((5, 1), padding=1)) == [1]

    def test_padding_in_place_of_a_token_is_another_step(self) -> None:
        assert rebuilt(case_of((5, 2)), case_of((5, 1), padding=1)) == [1]

    def test_an_empty_step_does_not_keep_the_schedule_before_it(self) -> None:
        answer = oracle_answer(metadata_cache, case_of((5, 0), padding=1), case_of((5, 1)))
        assert (answer["rebuilt"], answer["num_splits"]) == ([1], [0])

    def test_lengths_that_the_host_does_not_know_never_hit(self) -> None:
        assert rebuilt(case_of((5, 1)), case_of((5, 1), host=False)) == [1]

    def test_a_step_behind_unknown_lengths_never_hits(self) -> None:
        assert rebuilt(case_of((5, 1), host=False), case_of((5, 1))) == [1]

    def test_an_engine_has_the_same_options_in_both_steps(self) -> None:
        with pytest.raises(
            ValueError, match=r"previous.options.topk = 3, must be 2, as in the step after it"
        ):
            Inputs(case_of((5, 1), topk=2), case_of((5, 1), topk=3))
