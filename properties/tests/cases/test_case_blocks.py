"""Blocks of a case: how many, whose, and who may write them."""

from itertools import combinations_with_replacement, permutations, product

import pytest

from cumae.oracle import Batch, Request
from cumae.properties.tests.given.cases_by_hand import refusal


def one(context_len: int, query_len: int, *block_ids: int) -> Request:
    return Request(context_len, query_len, block_ids)


class TestBlocks:
    @pytest.mark.parametrize(
        ("seq_len", "block_size", "world", "needed"),
        [
            (0, 4, 1, 0),
            (1, 4, 1, 1),
            (3, 4, 1, 1),
            (4, 4, 1, 1),
            (5, 4, 1, 2),
            (8, 4, 2, 1),
            (9, 4, 2, 2),
            (7, 1, 1, 7),
        ],
    )
    def test_a_request_needs_a_block_for_each_started_run_of_tokens(
        self, seq_len: int, block_size: int, world: int, needed: int
    ) -> None:
        ids = tuple(range(10, 10 + needed))
        assert Batch((one(0, seq_len, *ids),), block_size, world).num_live_blocks(one(0, seq_len)) == needed

    def test_too_few_blocks_are_refused(self) -> None:
        assert refusal(lambda: Batch((one(0, 0), one(3, 2, 7)), 4)) == (
            "requests[1].block_ids: number = 1, must be >= 2 for 5 tokens at 4 a block"
        )

    def test_too_few_blocks_under_context_parallelism_are_refused(self) -> None:
        assert refusal(lambda: Batch((one(0, 9, 7),), 4, world=2)) == (
            "requests[0].block_ids: number = 1, must be >= 2 for 9 tokens at 8 a block"
        )

    def test_blocks_of_ranks_are_not_counted_in_tokens_of_one_rank(self) -> None:
        assert Batch((one(0, 16, 7, 2),), 4, world=2).tokens_per_block == 8

    def test_a_missing_block_counts_as_an_entry(self) -> None:
        assert Batch((one(4, 4, -1, 7),), 4).num_tokens == 4


class TestSharing:
    def test_a_common_prefix_is_shared(self) -> None:
        assert Batch((one(4, 1, 5, 1), one(4, 1, 5, 2)), 4).num_tokens == 2

    def test_a_block_stands_once_in_its_request(self) -> None:
        assert refusal(lambda: Batch((one(0, 8, 5, 5),), 4)) == (
            "requests[0].block_ids[1] = 5, must be distinct within its request"
        )

    def test_a_block_is_not_shared_at_another_column(self) -> None:
        assert refusal(lambda: Batch((one(8, 0, 3, 5), one(4, 0, 5)), 4)) == (
            "requests[1].block_ids[0] = 5, must be shared with request 0 only as part of a common prefix"
        )

    def test_a_block_is_not_shared_behind_different_ones(self) -> None:
        assert refusal(lambda: Batch((one(8, 0, 3, 5), one(8, 0, 4, 5)), 4)) == (
            "requests[1].block_ids[1] = 5, must be shared with request 0 only as part of a common prefix"
        )

    def test_a_block_has_one_writer(self) -> None:
        assert refusal(lambda: Batch((one(2, 1, 5), one(2, 1, 5)), 4)) == (
            "requests[0].block_ids[0] = 5, must not be written at position 2: request 1 holds it there too"
        )

    def test_the_first_writer_may_go_on_in_a_shared_block(self) -> None:
        assert Batch((one(2, 2, 5), one(2, 0, 5)), 4).num_tokens == 2

    def test_two_writers_of_one_block_are_refused_even_behind_each_other(self) -> None:
        assert "request 1 holds it there too" in refusal(lambda: Batch((one(1, 1, 5), one(2, 2, 5)), 4))

    def test_a_slot_of_an_idle_request_is_not_written(self) -> None:
        assert refusal(lambda: Batch((one(3, 0, 5), one(2, 1, 5)), 4)) == (
            "requests[1].block_ids[0] = 5, must not be written at position 2: request 0 holds it there too"
        )

    def test_spare_blocks_may_be_anybodys(self) -> None:
        assert Batch((one(4, 0, 5, 6), one(4, 0, 6, 5)), 4).num_tokens == 0

    def test_missing_blocks_are_not_shared_blocks(self) -> None:
        assert Batch((one(8, 0, -1, 5), one(8, 0, 3, -1), one(0, 2, -1)), 4).num_tokens == 2

    def test_the_rules_are_those_of_the_definition(self) -> None:
        """All pairs and some triples of small requests without missing blocks, by looking at every slot."""
        shapes = [
            (context, query, ids)
            for context, query in ((0, 1), (1, 0), (1, 1), (2, 0), (2, 1), (1, 2), (3, 1))
            for ids in permutations((4, 5, 6), -(-(context + query) // 2))
        ]
        groups = [*product(shapes, repeat=2), *combinations_with_replacement(shapes[::3], 3)]
        verdicts = set()
        for group in groups:
            requests = tuple(one(context, query, *ids) for context, query, ids in group)
            expected = follows_the_definition(requests, 2)
            verdicts.add(expected)
            assert is_accepted(requests, 2) == expected, requests
        assert verdicts == {True, False}


def follows_the_definition(requests: tuple[Request, ...], block_size: int) -> bool:
    """Whether the rules for sharing hold, slot by slot as SPEC states them."""
    held = []
    for request in requests:
        places = [(request.block_ids[p // block_size], p % block_size) for p in range(request.seq_len)]
        held.append((request.block_ids, places[: request.context_len], places[request.context_len :]))
    for b, (ids, _, written) in enumerate(held):
        for other, (other_ids, other_cached, other_written) in enumerate(held):
            if other == b:
                continue
            for j, block in enumerate(ids):
                if block in other_ids and other_ids[: j + 1] != ids[: j + 1]:
                    return False
            if set(written) & {*other_cached, *other_written}:
                return False
    return True


def is_accepted(requests: tuple[Request, ...], block_size: int) -> bool:
    try:
        Batch(requests, block_size)
    except ValueError:
        return False
    return True
