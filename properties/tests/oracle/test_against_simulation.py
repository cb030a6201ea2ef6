"""Oracles and simulations agree on drawn steps; a broken oracle is noticed."""

from collections import Counter
from itertools import islice

import pytest
from hypothesis import given, settings

from cumae.oracle import Case
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.features import NAMES
from cumae.properties.cases.seeded import seeded_cases
from cumae.properties.cases.strategies import cases
from cumae.properties.operations import OPERATIONS
from cumae.properties.tests.broken.layouts import positions_from_zero, rows_by_key_offsets
from cumae.properties.tests.broken.oracles import BROKEN, Broken
from cumae.properties.tests.given.worked_steps import prefill, step
from cumae.properties.tests.simulation.simulated import (
    ORACLES,
    STATEFUL_ORACLES,
    oracle_answer,
    simulated_answer,
)

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
    # Their pages are those of one rank, in whole blocks; page_read has rows for all keys.
    "kv_indices": NAMES - {"kernel_block_size", "rank", "world"},
    "page_read": NAMES - {"kernel_block_size", "key_scope", "rank", "world"},
    # Its workspace has room for a block of each request.
    "chunked_context": NAMES - {"shared_workspace"},
    # Its pages are those of one rank, and none is missing.
    "allocate_slots": NAMES - {"missing_blocks", "rank", "world"},
    # Their table holds whole blocks, and their padding belongs to no request.
    "window_slots": NAMES - {"kernel_block_size", "token_padding", "world"},
    "compressed_slots": NAMES - {"kernel_block_size", "token_padding", "split_groups"},
    "ring_slots": NAMES - {"kernel_block_size", "token_padding"},
}
SEARCHED = settings(max_examples=300, deadline=None, derandomize=False)


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


def gives_another_answer(broken: Broken, case: Case) -> bool:
    """Whether a broken oracle gives another answer; it gives none where it reads an entry of nobody."""
    try:
        return bool(oracle_answer(broken.oracle, case) != simulated_answer(broken.operation, case))
    except TypeError as error:
        if "'Mark'" not in str(error):
            raise
        return False


class TestBrokenOracles:
    @pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.oracle.__name__)
    def test_the_comparison_notices(self, broken: Broken) -> None:
        drawn = islice(seeded_cases(5, features=broken.features), 300)
        assert any(gives_another_answer(broken, case) for case in drawn)

    def test_without_context_positions_from_zero_are_right(self) -> None:
        case = Case(step(prefill(0, 3), prefill(0, 2)))
        assert oracle_answer(positions_from_zero, case) == simulated_answer("position_ids", case)

    def test_without_context_key_offsets_are_query_rows(self) -> None:
        case = Case(step(prefill(0, 3), prefill(0, 2)))
        assert oracle_answer(rows_by_key_offsets, case) == simulated_answer("causal_windows", case)
