"""The default search finds what is wrong for a shape that a function names, or for more than is usual."""

import pytest

from cumae.fixtures.limits import LIMITS, Limit, shapes_that_are_named
from cumae.properties.cases.domain import Domain
from cumae.properties.operations.binding import binding_of
from cumae.properties.operations.targets import load_function
from cumae.properties.running.device import prepare
from cumae.properties.search.budget import Budget
from cumae.properties.search.loop import search

DEVICE = prepare("auto")
FAR = [limit for limit in LIMITS if limit.where.endswith(":lens_of_16384_requests")]


@pytest.mark.parametrize("limit", [*shapes_that_are_named.LIMITS, *FAR], ids=lambda limit: limit.where)
def test_the_default_search_finds_what_is_wrong_in_a_shape(limit: Limit) -> None:
    binding = binding_of(load_function(limit.target), limit.operation, domain=Domain(captured=False))
    verdict = search(binding, DEVICE, Budget(examples=200), checks=["agrees"], reduce=False)
    assert verdict.failure is not None
    assert verdict.failure.finding.check == "agrees"
