"""Buffers that outlive their step: what is written, cleared and free."""

import pytest

from cumae.oracle import GARBAGE, Batch, Case, Inputs, Layout, Options, Request, persistent_buffers
from cumae.properties.tests.given.scheduled_steps import case_of
from cumae.properties.tests.given.traces import one_engine
from cumae.properties.tests.simulation.simulated import oracle_answer
from cumae.properties.tests.simulation.tokens import Answer


def buffers(previous: Case | None, case: Case) -> Answer:
    return oracle_answer(persistent_buffers, case, previous)


class TestPersistentBuffers:
    def test_a_step_in_new_buffers(self) -> None:
        batch = Batch((Request(1, 1, (7,)), Request(0, 0), Request(0, 2, (4,))), 4)
        case = Case(batch, Layout(num_padding_tokens=1, num_spare_tokens=1), Options.of(topk=2))
        assert Inputs(case)["topk_indices"][:3] == [[1, 0], [0, GARBAGE], [1, 0]]
        assert buffers(None, case) == {
            "request_of_row": [0, 2, 2, -1, "untouched"],
            "kv_indptr": [0, 2, 3, 5, 5, 5],
            "kv_indices": [29, 28, 16, 17, 16, "any", "any", "any", "untouched", "untouched"],
        }

    def test_what_only_the_step_before_had_is_cleared(self) -> None:
        previous, case = one_engine(case_of((5, 4)), case_of((5, 1), spare=5))
        answer = buffers(previous, case)
        assert answer["request_of_row"] == [0, -1, -1, -1, "untouched", "untouched"]
        assert answer["kv_indptr"] == [0] + [2] * 6
        assert answer["kv_indices"][2:] == [-1] * 6 + ["untouched"] * 4

    def test_rows_of_padding_were_written_and_are_cleared_too(self) -> None:
        previous, case = one_engine(case_of((5, 1), padding=2), case_of((5, 1), spare=2))
        assert buffers(previous, case)["request_of_row"] == [0, -1, -1]

    def test_a_larger_step_clears_nothing(self) -> None:
        previous, case = one_engine(case_of((5, 1)), case_of((5, 2), spare=1))
        assert buffers(previous, case) == buffers(None, case)

    def test_what_lies_between_the_last_key_and_the_live_extent_is_free(self) -> None:
        previous, case = one_engine(case_of((0, 4), topk=3), case_of((0, 2), topk=3, spare=2))
        indices = buffers(previous, case)["kv_indices"]
        assert indices[3:6] == ["any"] * 3 and indices[6:] == [-1] * 6

    def test_an_empty_step_clears_the_one_before_it(self) -> None:
        previous, case = one_engine(case_of((0, 2)), case_of(spare=3))
        assert buffers(previous, case) == {
            "request_of_row": [-1, -1, "untouched"],
            "kv_indptr": [0, 0, 0, 0],
            "kv_indices": [-1, -1, -1, -1, "untouched", "untouched"],
        }

    def test_a_position_without_a_block_has_no_slot(self) -> None:
        case = Case(Batch((Request(3, 1, (-1, 6)), Request(3, 1, (5, -1))), 2), options=Options.of(topk=4))
        positions = Inputs(case)["topk_indices"]
        slots = [{0: -1, 1: -1, 2: 12, 3: 13}, {0: 10, 1: 11, 2: -1, 3: -1}]
        expected = [slots[row][position] for row in range(2) for position in positions[row]]
        assert buffers(None, case)["kv_indices"] == expected

    def test_more_rows_than_the_buffers_have_are_refused(self) -> None:
        rule = "previous_num_tokens_padded = 4, must be <= max_num_tokens = 1"
        with pytest.raises(ValueError, match=rule):
            Inputs(case_of((5, 1)), case_of((5, 4))).call(persistent_buffers)
