"""Each function of the limits is right on a small case and wrong on its witness."""

from collections import Counter
from typing import get_args

import pytest

from cumae.fixtures.limits import LIMITS, Kind, Limit, step
from cumae.oracle import Case, Trace
from cumae.properties.cases.domain import Domain
from cumae.properties.operations.binding import binding_of
from cumae.properties.operations.targets import load_function
from cumae.properties.running.device import prepare
from cumae.properties.search.budget import Budget
from cumae.properties.search.loop import search

DEVICE = prepare("auto")
LEAST = 80
SMALL, EMPTY = step((3, 2), (0, 4), padding=1), step()


def agrees(limit: Limit, tried: Case | Trace, *others: Case) -> bool:
    """Return whether the check that must find the limit passes on cases, or on steps."""
    domain = Domain(**{"captured": False, **limit.promises, **limit.widened})
    binding = binding_of(load_function(limit.target), limit.operation, domain=domain)
    first = [tried, *others]
    if isinstance(tried, Case) and limit.check == "forgets_history":  # which option differs changes with each
        first += [tried.laid_out(num_padding_tokens=k) for k in range(2, 9)]
    verdict = search(binding, DEVICE, Budget(examples=0), checks=[limit.check], first=first, reduce=False)
    assert verdict.comparisons
    return bool(verdict.ok)


def test_there_are_enough_of_every_kind() -> None:
    counts = Counter(limit.kind for limit in LIMITS)
    assert len(LIMITS) >= LEAST and set(counts) == set(get_args(Kind))
    assert sum(limit.hidden for limit in LIMITS) * 3 >= len(LIMITS)
    assert len({limit.target for limit in LIMITS}) == len(LIMITS)


# Without strides the read may be so far off that it ends the CUDA context, and a GPU has orders of its own.
HERE = [limit for limit in LIMITS if DEVICE == "cpu" or limit.kind not in ("stride", "order")]


@pytest.mark.parametrize("limit", HERE, ids=lambda limit: limit.where)
def test_it_is_right_on_a_small_case_and_wrong_on_its_witness(limit: Limit) -> None:
    # An error on a step without requests would hide whether the limit itself is found.
    assert agrees(limit, limit.small or SMALL, EMPTY)
    assert (limit.witness is None) == (limit.kind == "order")
    assert limit.witness is None or not agrees(limit, limit.witness())
