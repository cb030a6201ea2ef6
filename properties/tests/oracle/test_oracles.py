from collections import Counter
from itertools import islice, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cumae.oracle import (
    Batch,
    Case,
    Layout,
    Options,
    Request,
    causal_windows,
    local_len,
    position_ids,
    prefix_interleave,
    sequence_layout,
    slot_mapping,
)
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.features import NAMES
from cumae.properties.cases.seeded import seeded_cases
from cumae.properties.cases.strategies import cases
from cumae.properties.operations import OPERATIONS
from cumae.properties.tests.broken_oracles import BROKEN, Broken, positions_from_zero, rows_by_key_offsets
from cumae.properties.tests.simulated import ORACLES, STATEFUL_ORACLES, oracle_answer, simulated_answer
from cumae.properties.tests.simulation import Answer

# What prefix_interleave does not take: its keys are uncompressed and on one rank, every cached token has a
# block, and the table holds one row of whole blocks for each request in order.
NOT_INTERLEAVED = {
    "compress_ratio",
    "kernel_block_size",
    "missing_blocks",
    "rank",
    "row_index",
    "window",
    "world",
}
FEATURES_OF = dict.fromkeys(ORACLES, NAMES) | {
    "prefix_interleave": NAMES - NOT_INTERLEAVED,
    # Their table holds whole blocks, for each request in order.
    "topk_to_slots": NAMES - {"kernel_block_size", "row_index"},
    "compact_topk_slots": NAMES - {"kernel_block_size", "row_index"},
}
SEARCHED = settings(max_examples=300, deadline=None, derandomize=False)


def prefill(context_len: int, query_len: int, *block_ids: int) -> Request:
    return Request(context_len, query_len, block_ids, "prefill")


def decode(context_len: int, query_len: int, *block_ids: int) -> Request:
    return Request(context_len, query_len, block_ids, "decode")


def step(*requests: Request, block_size: int = 64, world: int = 1) -> Batch:
    """Return a batch; a request given without blocks gets some, each its own, out of order."""
    taken = 1000
    given_blocks = []
    for request in requests:
        count = -(-request.seq_len // (block_size * world))
        taken -= count
        ids = request.block_ids or tuple(range(taken, taken + count))[::-1]
        given_blocks.append(Request(request.context_len, request.query_len, ids, request.phase))
    return Batch(tuple(given_blocks), block_size, world)


def windows(
    batch: Batch, layout: Layout | None = None, options: Options | None = None
) -> list[tuple[object, object]]:
    answer = oracle_answer(causal_windows, Case(batch, layout or Layout(), options or Options()))
    return list(zip(answer["ks"], answer["ke"], strict=True))


def layout_of(batch: Batch, layout: Layout | None = None, options: Options | None = None) -> Answer:
    return oracle_answer(sequence_layout, Case(batch, layout or Layout(), options or Options()))


def positions(batch: Batch, layout: Layout | None = None) -> list[object]:
    return oracle_answer(position_ids, Case(batch, layout or Layout()))["position_ids"]


def slots(batch: Batch, layout: Layout | None = None, options: Options | None = None) -> list[object]:
    return oracle_answer(slot_mapping, Case(batch, layout or Layout(), options or Options()))["slot_mapping"]


def keys(batch: Batch, layout: Layout | None = None, options: Options | None = None) -> list[object]:
    return oracle_answer(prefix_interleave, Case(batch, layout or Layout(), options or Options()))["keys"]


class TestAgainstTheSimulation:
    @pytest.mark.parametrize("operation", ORACLES)
    def test_the_oracle_says_what_the_simulation_found(self, operation: str) -> None:
        @SEARCHED
        @given(cases(features=FEATURES_OF[operation]))
        def agrees(case: Case) -> None:
            assert oracle_answer(ORACLES[operation], case) == simulated_answer(operation, case)

        agrees()

    @pytest.mark.parametrize("operation", ORACLES)
    @pytest.mark.parametrize("phase", ["prefill", "decode"])
    def test_they_agree_on_steps_of_one_phase(self, operation: str, phase: str) -> None:
        domain = Domain(phases=("decode",) if phase == "decode" else ("prefill",), block_sizes=(1, 3, 16))
        drawn = seeded_cases(2, domain, FEATURES_OF[operation])
        for case in islice(drawn, 100):
            assert oracle_answer(ORACLES[operation], case) == simulated_answer(operation, case)

    def test_every_oracle_has_a_simulation(self) -> None:
        assert {*ORACLES, *STATEFUL_ORACLES} == set(OPERATIONS)

    def test_features_of_the_strategy_reach_the_simulation(self) -> None:
        seen: Counter[str] = Counter()
        for case in islice(seeded_cases(3), 1000):
            options = case.options
            facts = {
                "ranks": case.batch.world > 1,
                "window": options.keys.window > 0,
                "compressed": options.keys.compress_ratio > 1,
                "no row": -1 in (case.layout.row_index or ()),
                "no block": any(-1 in request.block_ids for request in case.batch.requests),
                "prefill scope": options.keys.key_scope == "prefill",
                "dummy request": options.padding.dummy_request,
            }
            seen.update({fact: int(holds) for fact, holds in facts.items()})
        assert min(seen.values()) > 10, seen


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


def by_position(p: int, manager: int, kernel: int, world: int, interleave: int) -> tuple[int, int, int]:
    """Return (rank, column, offset): the rank's own tokens are counted over the whole request."""
    local = p // (world * interleave) * interleave + p % interleave
    return p // interleave % world, local // kernel, local % kernel


def by_virtual_block(p: int, manager: int, kernel: int, world: int, interleave: int) -> tuple[int, int, int]:
    """Return (rank, column, offset): the rank's own tokens are counted within one virtual block (vLLM)."""
    within = p % (manager * world)
    local = within // (world * interleave) * interleave + within % interleave
    column = p // (manager * world) * (manager // kernel) + local // kernel
    return within // interleave % world, column, local % kernel


# Block size of the manager and of the kernel, ranks, interleave.
PARALLEL = [
    (manager, kernel, world, interleave)
    for manager, world, interleave in product(range(1, 7), range(1, 5), range(1, 8))
    for kernel in range(1, manager + 1)
    if manager % kernel == 0
]


class TestContextParallel:
    def test_two_formulas_agree_iff_the_interleave_divides_the_block(self) -> None:
        for parallel in PARALLEL:
            manager, _, world, interleave = parallel
            every = range(2 * manager * world * interleave)
            agree = all(by_position(p, *parallel) == by_virtual_block(p, *parallel) for p in every)
            assert agree == (world == 1 or manager % interleave == 0), parallel

    def test_where_they_differ_virtual_blocks_lose_a_token(self) -> None:
        for parallel in PARALLEL:
            manager, _, world, interleave = parallel
            places = [by_virtual_block(p, *parallel) for p in range(2 * manager * world * interleave)]
            distinct = len(set(places)) == len(places)
            assert distinct == (world == 1 or manager % interleave == 0), parallel

    def test_the_oracle_agrees_with_virtual_blocks(self) -> None:
        for manager, kernel, world, interleave in PARALLEL:
            if manager % interleave:
                continue
            length = 2 * manager * world + 1
            batch = Batch((prefill(0, length, 4, 1, 9),), manager, world)
            for rank in range(world):
                options = Options.of(rank=rank, interleave=interleave, kernel_block_size=kernel)
                expected = []
                for p in range(length):
                    owner, column, offset = by_virtual_block(p, manager, kernel, world, interleave)
                    parts = manager // kernel
                    block = (4, 1, 9)[column // parts] * parts + column % parts
                    expected.append(block * kernel + offset if owner == rank else -1)
                assert slots(batch, options=options) == expected

    def test_local_length_in_closed_form_is_the_counted_one(self) -> None:
        for length, world, interleave in product(range(40), range(1, 5), range(1, 6)):
            for rank in range(world):
                whole, rest = divmod(length, world * interleave)
                closed = whole * interleave + min(max(rest - rank * interleave, 0), interleave)
                assert local_len(length, world, rank, interleave) == closed

    def test_every_token_is_owned_once(self) -> None:
        for length, world, interleave in product(range(20), range(1, 5), range(1, 6)):
            assert sum(local_len(length, world, rank, interleave) for rank in range(world)) == length

    @given(st.integers(1, 4), st.integers(1, 4))
    @settings(max_examples=50, deadline=None, derandomize=False)
    def test_an_interleave_that_does_not_divide_the_block_is_refused(self, size: int, factor: int) -> None:
        batch = Batch((), size, world=2)
        with pytest.raises(ValueError, match=f"options.parallel.interleave = {size * factor + 1}"):
            Case(batch, options=Options.of(interleave=size * factor + 1))


class TestBrokenOracles:
    @pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.oracle.__name__)
    def test_the_comparison_notices(self, broken: Broken) -> None:
        drawn = islice(seeded_cases(5, features=broken.features), 100)
        assert any(
            oracle_answer(broken.oracle, case) != simulated_answer(broken.operation, case) for case in drawn
        )

    def test_without_context_positions_from_zero_are_right(self) -> None:
        case = Case(step(prefill(0, 3), prefill(0, 2)))
        assert oracle_answer(positions_from_zero, case) == simulated_answer("position_ids", case)

    def test_without_context_key_offsets_are_query_rows(self) -> None:
        case = Case(step(prefill(0, 3), prefill(0, 2)))
        assert oracle_answer(rows_by_key_offsets, case) == simulated_answer("causal_windows", case)
