"""The work of cases: listed keys count, whatever a dialect calls the arguments."""

from types import SimpleNamespace
from typing import cast

import pytest

from cumae.oracle import Batch, Case, Options, Request
from cumae.properties.operations.binding import binding_of
from cumae.properties.operations.targets import load_function
from cumae.properties.running.volume import Volume
from cumae.properties.search.budget import Budget
from cumae.properties.search.examiner import Examiner
from cumae.properties.search.visitor import Visitor
from cumae.properties.search.work import ENTRY

TOKENS, TOPK = 64, 2_048


@pytest.mark.parametrize(
    ("target", "operation", "dialect", "lists"),
    [
        ("cumae.gpu_impl:write_topk_to_slots", "topk_to_slots", "cumae", True),
        ("cumae.gpu_impl:write_compact_topk_slots", "compact_topk_slots", "cumae", True),
        ("cumae.gpu_impl:PersistentBuffers", "persistent_buffers", "cumae", True),
        ("cumae.fixtures.correct.sglang:topk_to_slots", "topk_to_slots", "sglang", True),
        ("cumae.gpu_impl:write_sparse_schedule", "sparse_schedule", "cumae", False),
    ],
)
def test_selected_keys_count_where_they_are_listed(
    target: str, operation: str, dialect: str, lists: bool
) -> None:
    examiner = SimpleNamespace(
        binding=binding_of(load_function(target), operation, dialect),
        checks=("agrees",),
        clock=0.0,
        pace=SimpleNamespace(budget=Budget(seconds=60)),
    )
    visitor = Visitor(cast(Examiner, examiner), Volume(), 1.0)
    few, many = (
        visitor._work(Case(Batch((Request(0, TOKENS, (3,)),), 64), options=Options.of(topk=topk)))
        for topk in (1, TOPK)
    )
    assert (many - few > 0.9 * TOKENS * TOPK * ENTRY) is lists
