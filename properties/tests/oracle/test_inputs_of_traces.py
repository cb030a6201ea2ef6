"""Inputs that schedules and traces have: selected positions, the step before."""

from itertools import groupby, islice

import pytest

from cumae.oracle import GARBAGE, Inputs
from cumae.oracle.model.selections import BLOCK, ORDERED
from cumae.properties.cases.seeded import seeded_cases
from cumae.properties.tests.given.scheduled_steps import case_of
from cumae.properties.tests.given.traces import FEATURES


def _blocks_in_order(selected: list[int]) -> bool:
    """Whether positions of one block stand side by side and rise; blocks may come in any order."""
    runs = [list(run) for _, run in groupby(selected, lambda position: position // BLOCK)]
    blocks = {run[0] // BLOCK for run in runs}
    return len(blocks) == len(runs) and all(run == sorted(run) for run in runs)


class TestInputs:
    def test_selected_positions_are_distinct_causal_and_hold_the_newest(self) -> None:
        for case in islice(seeded_cases(6, features=FEATURES), 200):
            inputs = Inputs(case)
            for row, position in enumerate(inputs["position_ids"][: case.batch.num_tokens]):
                entries = inputs["topk_indices"][row]
                kept = min(position + 1, case.options.selection.topk)
                selected = entries[:kept]
                assert len(set(selected)) == kept and set(selected) <= set(range(position + 1))
                assert position in selected
                order = ORDERED.get(row % 10)
                if order == "in blocks":
                    assert _blocks_in_order(selected)
                elif kept > 1:
                    assert (selected == sorted(selected)) == (order == "rising")
                    assert order != "falling" or selected == sorted(selected, reverse=True)
                assert [entry is GARBAGE for entry in entries[kept:]] == [True] * (
                    case.options.selection.topk - kept
                )

    def test_selected_positions_are_scattered_over_the_context(self) -> None:
        row = sorted(Inputs(case_of((999, 1), topk=8))["topk_indices"][0])
        assert max(b - a for a, b in zip([0, *row], [*row, 999], strict=True)) < 500

    def test_padding_rows_select_nothing(self) -> None:
        assert Inputs(case_of((0, 1), padding=1))["topk_indices"][1] == [GARBAGE, GARBAGE]

    def test_without_a_step_before_there_is_nothing_of_it(self) -> None:
        inputs = Inputs(case_of((5, 1)))
        names = ("previous_context_lens", "previous_query_lens", "previous_num_tokens_padded")
        assert [inputs[name] for name in names] == [None, None, 0]

    def test_a_step_before_has_lengths_where_the_host_knew_them(self) -> None:
        case, known, unknown = case_of((5, 1)), case_of((4, 2), padding=3), case_of((4, 2), host=False)
        assert Inputs(case, known)["previous_context_lens"] == [4]
        assert Inputs(case, known)["previous_num_tokens_padded"] == 5
        assert Inputs(case, unknown)["previous_query_lens"] is None
        assert Inputs(case, unknown)["previous_num_tokens_padded"] == 2

    @pytest.mark.parametrize("host", [True, False])
    def test_the_host_knows_the_lengths_or_none(self, host: bool) -> None:
        inputs = Inputs(case_of((5, 1), (0, 0), host=host))
        assert inputs["context_lens_cpu"] == ([5, 0] if host else None)
        assert inputs["query_lens_cpu"] == ([1, 0] if host else None)

    def test_the_last_ones_of_a_case_are_kept_until_they_are_made_anew(self) -> None:
        case, other = case_of((5, 1)), case_of((4, 2))
        first = Inputs.of(case)
        assert Inputs.of(case) is first
        anew = Inputs.of(case, anew=True)
        assert anew is not first and Inputs.of(case) is anew
        assert Inputs.of(other).case is other and Inputs.of(case) is not anew
