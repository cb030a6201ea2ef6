"""Schedules: how they are built, judged and told apart."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise, product

import pytest
from hypothesis import given, settings

from cumae.oracle import (
    Case,
    Inputs,
    SparseSchedule,
    kv_lens_of,
    schedule_faults,
    schedule_key,
    sparse_schedule,
)
from cumae.properties.cases.strategies import cases
from cumae.properties.tests.broken.schedules import key_of_clamped_lengths
from cumae.properties.tests.given.scheduled_steps import case_of, rebuilt
from cumae.properties.tests.given.traces import FEATURES

SEARCHED = settings(max_examples=200, deadline=None, derandomize=False)
Lens = tuple[tuple[int, int], ...]  # (context_len, query_len) of each request
# Pairs of steps that one key held in vllm#42982, and topk: lengths 8 then 16 of eight tokens; lengths 5
# and 7 of which 1 and 4 or 4 and 1 are new; lengths 2 then 3 of two tokens.
COLLISIONS: list[tuple[int, Lens, Lens]] = [
    (8, ((0, 8),), ((8, 8),)),
    (8, ((4, 1), (3, 4)), ((1, 4), (6, 1))),
    (2, ((0, 2),), ((1, 2),)),
]


def built(
    lens: Lens, topk: int, padding: int = 0, split_size: int = 1, num_workers: int = 1
) -> SparseSchedule:
    contexts, queries = [c for c, _ in lens], [q for _, q in lens]
    return sparse_schedule(contexts, queries, sum(queries) + padding, topk, split_size, num_workers)


def key(lens: Lens, topk: int, padding: int = 0, split_size: int = 1, num_workers: int = 1) -> object:
    contexts, queries = [c for c, _ in lens], [q for _, q in lens]
    return schedule_key(contexts, queries, sum(queries) + padding, topk, split_size, num_workers)


def faults(items: Sequence[tuple[int, int, int]], kv_lens: Sequence[int]) -> Sequence[str]:
    rows, starts, stops = ([item[column] for item in items] for column in range(3))
    return schedule_faults(rows, starts, stops, kv_lens)


class TestSparseSchedule:
    def test_a_token_attends_to_all_up_to_itself_and_to_topk_at_most(self) -> None:
        assert kv_lens_of([3, 0, 0], [3, 0, 2], num_tokens_padded=6, topk=5) == [4, 5, 5, 1, 2, 0]

    def test_workers_begin_where_the_closed_form_says(self) -> None:
        for num_items, num_workers in product(range(1, 30), range(1, 12)):
            each, rest = divmod(num_items, num_workers)
            expected = [w * each + min(w, rest) for w in range(num_workers + 1)]
            assert built(((num_items, 1),), topk=num_items, num_workers=num_workers).work_indptr == expected

    @SEARCHED
    @given(cases(features=FEATURES))
    def test_the_items_of_each_row_partition_its_keys(self, case: Case) -> None:
        work = Inputs(case).call(sparse_schedule)
        kv_lens = Inputs(case).call(kv_lens_of)
        assert schedule_faults(work.work_token, work.work_start, work.work_stop, kv_lens) == []
        assert work.num_splits == [work.work_token.count(row) for row in range(case.num_tokens_padded)]
        assert len(work.work_token) == case.max_work_items

    @SEARCHED
    @given(cases(features=FEATURES))
    def test_no_worker_does_more_than_one_item_more_than_another(self, case: Case) -> None:
        starts = Inputs(case).call(sparse_schedule).work_indptr
        counts = [stop - start for start, stop in pairwise(starts)]
        assert max(counts) - min(counts) <= 1 and counts == sorted(counts, reverse=True)

    @pytest.mark.parametrize(
        ("changed", "error"),
        [
            ({"topk": 0}, "topk = 0, must be >= 1"),
            ({"split_size": 0}, "split_size = 0, must be >= 1"),
            ({"num_workers": -1}, "num_workers = -1, must be >= 1"),
            ({"num_tokens_padded": 2}, "num_tokens_padded = 2, must be >= 3, the tokens of the step"),
        ],
    )
    def test_a_bad_number_is_refused(self, changed: dict[str, int], error: str) -> None:
        numbers = {"num_tokens_padded": 3, "topk": 2, "split_size": 1, "num_workers": 1, **changed}
        with pytest.raises(ValueError, match=f"^{error}$"):
            sparse_schedule([0], [3], **numbers)


class TestScheduleFaults:
    def test_the_judge_counts_what_a_count_of_keys_counts(self) -> None:
        """All schedules of one item or two over two rows of 2 and 1 keys, by counting each key."""
        kv_lens = [2, 1]
        every = [*product(range(2), range(4), range(4))]
        verdicts = set()
        for items in [*product(every, repeat=2), *((item,) for item in every)]:
            counts = Counter((row, k) for row, start, stop in items for k in range(start, stop))
            expected = all(counts[row, k] == 1 for row in range(2) for k in range(kv_lens[row]))
            verdicts.add(expected)
            assert (faults(items, kv_lens) == []) == expected, items
        assert verdicts == {True, False}

    def test_items_may_come_in_any_order_and_end_past_the_keys(self) -> None:
        assert schedule_faults([1, 0, 0], [0, 4, 0], [256, 8, 4], kv_lens=[6, 3]) == []

    def test_empty_items_count_for_nothing_whatever_their_row(self) -> None:
        assert schedule_faults([0, -1, 99, 0], [0, 0, 5, 7], [2, 0, 5, 9], kv_lens=[2]) == []

    def test_a_schedule_without_items_is_right_for_rows_without_keys(self) -> None:
        assert schedule_faults([], [], [], kv_lens=[0, 0]) == []

    @pytest.mark.parametrize(
        ("items", "fault"),
        [
            ([(0, 0, 2)], "row 0: keys [2, 3) are in no item"),
            ([(0, 0, 1), (0, 2, 3)], "row 0: keys [1, 2) are in no item"),
            ([(0, 0, 2), (0, 1, 3)], "row 0: keys [1, 2) are in two items"),
            ([(0, 0, 3), (0, 1, 2)], "row 0: keys [1, 2) are in two items"),
            ([(0, 0, 3), (1, 0, 1)], "item 1: row 1 does not exist: there are 1"),
            ([(-1, 0, 1), (0, 0, 3)], "item 0: row -1 does not exist: there are 1"),
            ([(0, -1, 1), (0, 0, 3)], "item 0: keys [-1, 1) begin before key 0"),
        ],
    )
    def test_a_fault_is_named_by_its_keys(self, items: list[tuple[int, int, int]], fault: str) -> None:
        assert faults(items, [3]) == [fault]


class TestScheduleKey:
    @pytest.mark.parametrize(("topk", "one", "other"), COLLISIONS)
    def test_steps_that_an_engine_confused_have_keys_of_their_own(
        self, topk: int, one: Lens, other: Lens
    ) -> None:
        assert built(one, topk) != built(other, topk)
        assert key(one, topk) != key(other, topk)

    @pytest.mark.parametrize(("topk", "one", "other"), COLLISIONS)
    def test_a_key_of_clamped_lengths_confuses_them(self, topk: int, one: Lens, other: Lens) -> None:
        trace = case_of(*one, topk=topk), case_of(*other, topk=topk)
        assert rebuilt(*trace, key_of_clamped_lengths) == [0]
        assert rebuilt(*trace) == [1]

    def test_equal_keys_mean_equal_schedules(self) -> None:
        """All steps of up to two requests of context 0 … 5 and query 0 … 3, padded by a row or not."""
        request = [*product(range(6), range(4))]
        steps: list[Lens] = [(), *((r,) for r in request), *product(request, repeat=2)]
        for numbers in product((1, 2, 3, 4, 5), (1, 2, 3), (1, 2, 5)):
            known: dict[object, SparseSchedule] = {}
            for lens, padding in product(steps, (0, 1)):
                schedule = built(lens, numbers[0], padding, *numbers[1:])
                assert known.setdefault(key(lens, numbers[0], padding, *numbers[1:]), schedule) == schedule
            assert len(known) < 2 * len(steps)

    def test_unequal_keys_may_mean_equal_schedules(self) -> None:
        one, other = ((0, 2),), ((0, 1), (1, 1))
        assert built(one, 2) == built(other, 2) and key(one, 2) != key(other, 2)

    def test_requests_that_compute_nothing_are_not_in_the_key(self) -> None:
        assert key(((3, 1), (9, 0), (0, 2)), 4) == key(((3, 1), (0, 2), (0, 0)), 4)

    @pytest.mark.parametrize("name", ["topk", "split_size", "num_workers", "num_tokens_padded"])
    def test_every_number_is_in_the_key(self, name: str) -> None:
        numbers = {"topk": 3, "split_size": 2, "num_workers": 2, "num_tokens_padded": 1}
        changed = {**numbers, name: numbers[name] + 1}
        assert schedule_key([0], [1], **numbers) != schedule_key([0], [1], **changed)
