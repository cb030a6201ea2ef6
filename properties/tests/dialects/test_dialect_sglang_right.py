"""Implementations that are right under SGLang's names pass every check."""

import re
from typing import Any

import pytest

from cumae.properties.cases.domain import Domain
from cumae.properties.checks import checks_for
from cumae.properties.operations.binding import binding_of
from cumae.properties.results.verdict import Verdict
from cumae.properties.running.device import prepare
from cumae.properties.search.budget import Budget
from cumae.properties.search.first_cases import fixture_cases
from cumae.properties.search.loop import search
from cumae.properties.tests.functions.right_for_sglang import (
    chunks_like_sglang,
    chunks_of,
    layout_of_step,
    positions_of_decode,
    positions_of_every_mode,
    positions_of_extend,
    selected_in_pool,
    slots_by_lookup,
    slots_by_page,
    windows_of_extend,
)

DEVICE = prepare("auto")
DECODES = Domain(phases=("decode",), min_requests=1, max_query_len=1, empty_requests=False)


def verdict_on(function: Any, operation: str, domain: Domain | None = None) -> Verdict:
    binding = binding_of(function, operation, "sglang", domain)
    return search(
        binding, DEVICE, Budget(examples=30), checks=checks_for(binding), first=fixture_cases(binding)
    )


@pytest.mark.parametrize(
    ("function", "operation", "domain"),
    [
        (positions_of_extend, "position_ids", None),
        (positions_of_decode, "position_ids", DECODES),
        (positions_of_every_mode, "position_ids", None),
        (layout_of_step, "sequence_layout", None),
        (slots_by_lookup, "slot_mapping", None),
        (slots_by_page, "slot_mapping", None),
        (windows_of_extend, "causal_windows", None),
        (selected_in_pool, "topk_to_slots", None),
        (chunks_of, "chunked_context", None),
    ],
)
def test_a_right_implementation_passes_every_check(
    function: Any, operation: str, domain: Domain | None
) -> None:
    verdict = verdict_on(function, operation, domain)
    assert verdict.ok, verdict.failure
    assert verdict.cases >= 30


def test_what_no_argument_of_the_dialect_shows_is_not_said_to_be_hidden() -> None:
    assert verdict_on(selected_in_pool, "topk_to_slots").hidden == ()


def test_lists_are_taken_and_an_answer_of_another_shape_is_told_with_both() -> None:
    def lists(extend_prefix_lens: Any, num_prefix_chunks: int, prefix_chunk_len: int) -> tuple[Any, ...]:
        *tensors, totals, longest = chunks_like_sglang(
            extend_prefix_lens, num_prefix_chunks, prefix_chunk_len
        )
        return (*tensors, totals.tolist(), longest.tolist())

    assert verdict_on(lists, "chunked_context").ok

    def transposed(extend_prefix_lens: Any, num_prefix_chunks: int, prefix_chunk_len: int) -> tuple[Any, ...]:
        starts, *rest = chunks_like_sglang(extend_prefix_lens, num_prefix_chunks, prefix_chunk_len)
        return (starts.T.contiguous(), *rest)

    binding = binding_of(transposed, "chunked_context", "sglang")
    failure = search(binding, DEVICE, Budget(examples=60), checks=("agrees",)).failure
    assert failure is not None
    shapes = re.search(r"has shape \[(.*)\], must have \[(.*)\]", failure.finding.message)
    assert shapes and shapes[1].split(", ") == shapes[2].split(", ")[::-1]
