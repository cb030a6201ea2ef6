"""Steps on ranks lie in several rounds of all of them, and beyond a window where there is one."""

import pytest

from cumae.oracle import Case
from cumae.properties.cases.domain import Domain
from cumae.properties.steps.ladder import Ladder
from cumae.properties.steps.rounds_of_ranks import GROUP, LARGE_GROUP, ROUNDS, RUNS, WORLDS

RANKS = ("world", "rank", "interleave")
OTHERS = (("window",), ("compress_ratio",))
LARGE = [name for name in ROUNDS if "groups" in name]


@pytest.mark.parametrize("name", [name for name in ROUNDS if name not in LARGE])
@pytest.mark.parametrize("other", OTHERS)
def test_each_request_is_behind_a_round(name: str, other: tuple[str, ...]) -> None:
    build, sizes = ROUNDS[name]
    case = build(Ladder(Domain(), (*RANKS, *other)), sizes[0])
    assert isinstance(case, Case)
    each, parallel = case.batch.world * case.options.parallel.interleave, case.options.parallel
    assert case.batch.world in WORLDS and parallel.interleave in RUNS
    assert all(request.context_len > each for request in case.batch.requests)
    keys = case.options.keys
    assert keys.window == each + 1 if other == OTHERS[0] else keys.compress_ratio == GROUP


@pytest.mark.parametrize("name", LARGE)
def test_large_groups_are_those_of_functions_that_compress_keys(name: str) -> None:
    build, sizes = ROUNDS[name]
    case = build(Ladder(Domain(), (*RANKS, "window", "compress_ratio")), sizes[0])
    assert isinstance(case, Case)
    assert (case.options.keys.compress_ratio, case.options.keys.window) == (LARGE_GROUP, 0)
    assert build(Ladder(Domain(), (*RANKS, "window")), sizes[0]) is None


def test_a_function_without_ranks_gets_none() -> None:
    assert all(build(Ladder(Domain(), ()), sizes[0]) is None for build, sizes in ROUNDS.values())
