"""Sparse schedules, when a cached one may be kept, and what buffers that outlive a step hold after it."""

from collections import Counter
from collections.abc import Sequence
from itertools import islice, pairwise, product

import pytest
from hypothesis import given, settings

from cumae.oracle import (
    GARBAGE,
    Batch,
    Case,
    Inputs,
    Layout,
    Options,
    Request,
    SparseSchedule,
    kv_lens_of,
    metadata_cache,
    persistent_buffers,
    schedule_faults,
    schedule_key,
    sparse_schedule,
)
from cumae.properties.cases.seeded import seeded_cases
from cumae.properties.cases.strategies import cases
from cumae.properties.tests.broken_oracles import BROKEN_IN_TRACES, key_of_clamped_lengths
from cumae.properties.tests.simulated import STATEFUL_ORACLES, Oracle, oracle_answer, simulated_answer
from cumae.properties.tests.simulation import Answer
from cumae.properties.tests.traces import FEATURES, Trace, one_engine, seeded_traces, step_of, traces

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


def case_of(
    *lens: tuple[int, int], topk: int = 2, spare: int = 0, host: bool = True, padding: int = 0
) -> Case:
    layout = Layout(num_padding_tokens=padding, num_spare_tokens=spare, host_lens=host)
    return Case(step_of(*lens), layout, Options.of(topk=topk))


def rebuilt(previous: Case | None, case: Case, oracle: Oracle = metadata_cache) -> list[object]:
    return oracle_answer(oracle, case, previous)["rebuilt"]


def buffers(previous: Case | None, case: Case) -> Answer:
    return oracle_answer(persistent_buffers, case, previous)


def faults(items: Sequence[tuple[int, int, int]], kv_lens: Sequence[int]) -> list[str]:
    rows, starts, stops = ([item[column] for item in items] for column in range(3))
    return schedule_faults(rows, starts, stops, kv_lens)


class TestAgainstTheSimulation:
    @pytest.mark.parametrize("operation", STATEFUL_ORACLES)
    def test_the_oracle_says_what_the_simulation_found(self, operation: str) -> None:
        @SEARCHED
        @given(traces())
        def agrees(trace: Trace) -> None:
            previous, case = trace
            expected = simulated_answer(operation, case, previous)
            assert oracle_answer(STATEFUL_ORACLES[operation], case, previous) == expected

        agrees()

    def test_traces_reach_what_matters(self) -> None:
        seen: Counter[str] = Counter()
        for previous, case in islice(seeded_traces(3), 400):
            before = previous.num_tokens_padded if previous else 0
            hit = rebuilt(previous, case) == [0]
            facts = {
                "no step before": previous is None,
                "hit": hit,
                "hit although lengths grew": hit and previous is not None and previous.batch != case.batch,
                "miss": previous is not None and not hit,
                "lengths unknown": not case.layout.host_lens,
                "lengths unknown before": previous is not None and not previous.layout.host_lens,
                "shrunk": before > case.num_tokens_padded > 0,
                "grown": 0 < before < case.num_tokens_padded,
                "beyond both": case.max_num_tokens > max(before, case.num_tokens_padded),
                "no block": any(-1 in request.block_ids for request in case.batch.requests),
            }
            seen.update({fact: int(holds) for fact, holds in facts.items()})
        assert min(seen.values()) > 5, seen

    @pytest.mark.parametrize(("operation", "oracle"), BROKEN_IN_TRACES)
    def test_the_comparison_notices_a_wrong_oracle(self, operation: str, oracle: Oracle) -> None:
        assert any(
            oracle_answer(oracle, case, previous) != simulated_answer(operation, case, previous)
            for previous, case in islice(seeded_traces(5), 200)
        )


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
                assert kept == 1 or selected != sorted(selected)
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
