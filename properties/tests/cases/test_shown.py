"""Which shapes a function can show: never fewer than its cases show, and none that it cannot see."""

from itertools import islice
from typing import Any

import pytest

from cumae.oracle import INPUTS
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.features import NAMES
from cumae.properties.cases.seeded import seeded_cases
from cumae.properties.cases.shapes import SHAPES, SIZES, largest_sizes, shapes_of
from cumae.properties.cases.shown import _OF, _PROMISED, begins, shown_by
from cumae.properties.operations import OPERATIONS
from cumae.properties.operations.callee import required

DOMAINS: list[dict[str, Any]] = [
    {},
    {"min_requests": 1, "min_tokens": 1},
    {"block_sizes": (16,), "strided": False, "padding": "none"},
    {"phases": ("decode",), "empty_requests": False, "max_requests": 3},
    {"verify_steps": True},
    {"phases": ("prefill",), "missing_blocks": False, "rowless_requests": False},
]


def shown(name: str, **promises: Any) -> frozenset[str]:
    operation = OPERATIONS[name]
    return shown_by(operation.features, required(operation.oracle), Domain(**promises))


def test_whoever_sees_everything_can_show_everything() -> None:
    assert shown_by(NAMES, INPUTS, Domain()) == {*SHAPES, *SIZES}


@pytest.mark.parametrize("promises", DOMAINS)
def test_what_cases_show_can_be_shown(promises: dict[str, Any]) -> None:
    domain = Domain(**promises)
    able = shown_by(NAMES, INPUTS, domain)
    for case in islice(seeded_cases(0, domain), 300):
        sizes = {name for name, size in largest_sizes(case).items() if size}
        assert {*shapes_of(case), *sizes} <= able, (promises, {*shapes_of(case), *sizes} - able)


@pytest.mark.parametrize("start", [*_OF, *_PROMISED])
def test_each_beginning_is_that_of_a_name(start: str) -> None:
    assert any(begins(name, start) for name in (*SHAPES, *SIZES))


def test_an_operation_shows_only_what_it_sees() -> None:
    assert {"decode of one token", "cached tokens in a request"} <= shown("position_ids")
    unseen = {"logits tied", "block size 16", "table by columns", "sliding window", "rows of fp8"}
    assert not shown("position_ids") & unseen
    assert "cached tokens in a request" not in shown("grouped_topk")
    assert {"logits tied", "padded tokens", "tokens"} <= shown("grouped_topk")
    assert "compressed keys" in shown("causal_windows")


def test_a_domain_shows_only_what_it_promises() -> None:
    able = shown("slot_mapping", block_sizes=(16, 64), min_requests=1, strided=False)
    assert not able & {"no requests", "block size 1", "table by columns", "block size no power of two"}
    assert {"block size 16", "block size 64", "one request"} <= able
