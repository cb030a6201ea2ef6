"""A schedule under a key that other lengths have too is found, whatever the key keeps of them."""

from collections.abc import Callable
from typing import Any

import pytest

from cumae.fixtures.limits import Limit, histories_of_weak_keys
from cumae.fixtures.limits.histories_of_schedules import Schedules
from cumae.properties.cases.domain import Domain
from cumae.properties.operations.binding import binding_of
from cumae.properties.operations.targets import load_function
from cumae.properties.results.verdict import Verdict
from cumae.properties.running.device import prepare
from cumae.properties.search.budget import Budget
from cumae.properties.search.loop import search

DEVICE = prepare("auto")


def searched(kind: Callable[..., Any]) -> Verdict:
    binding = binding_of(kind, "metadata_cache", domain=Domain(captured=False))
    return search(binding, DEVICE, Budget(examples=100), checks=["forgets_history"], reduce=False)


@pytest.mark.parametrize("limit", histories_of_weak_keys.LIMITS, ids=lambda limit: limit.where)
def test_a_key_that_other_lengths_have_too_is_found(limit: Limit) -> None:
    assert searched(load_function(limit.target)).failure is not None


def test_a_key_of_all_lengths_is_right() -> None:
    verdict = searched(Schedules)
    assert verdict.ok and verdict.comparisons > 100
