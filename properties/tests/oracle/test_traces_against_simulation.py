"""Oracles and simulations agree on drawn traces; a broken oracle is noticed."""

from collections import Counter
from itertools import islice

import pytest
from hypothesis import given, settings

from cumae.properties.tests.broken.oracles import BROKEN_IN_TRACES
from cumae.properties.tests.given.scheduled_steps import rebuilt
from cumae.properties.tests.given.traces import Trace, seeded_traces, traces
from cumae.properties.tests.simulation.simulated import (
    STATEFUL_ORACLES,
    Oracle,
    oracle_answer,
    simulated_answer,
)

SEARCHED = settings(max_examples=200, deadline=None, derandomize=False)


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
