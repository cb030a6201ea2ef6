"""Facts about steps whose requests share pages."""

from collections import Counter

import pytest

from cumae.oracle import Request
from cumae.properties.steps.branches import BRANCHES
from cumae.properties.steps.kinds import KINDS
from cumae.properties.tests.given.kinds import smallest


def _requests(name: str) -> tuple[Request, ...]:
    return smallest(name).batch.requests


def _pages(requests: tuple[Request, ...], place: int) -> Counter[int]:
    return Counter(request.block_ids[place] for request in requests)


def test_each_stands_among_the_kinds() -> None:
    assert BRANCHES.items() <= KINDS.items()


def test_a_tree_has_one_root_and_two_branches() -> None:
    requests = _requests("a tree of prompts")
    assert len(_pages(requests, 0)) == 1
    assert sorted(_pages(requests, 1).values()) == [9, 10]
    assert len(_pages(requests, 2)) == len(requests)


def test_each_branch_of_a_tree_of_three_levels_has_four() -> None:
    requests = _requests("a tree of three levels")
    assert [len(_pages(requests, place)) for place in range(4)] == [1, 2, 8, len(requests)]
    assert len({request.block_ids[1:3] for request in requests}) == 8
    assert min(_pages(requests, 2).values()) == 2


@pytest.mark.parametrize(
    ("name", "begins"), [("samples that begin a page", True), ("samples within a page", False)]
)
def test_samples_share_all_pages_but_the_last(name: str, begins: bool) -> None:
    requests = _requests(name)
    groups = [requests[b : b + 4] for b in range(0, 16, 4)]
    assert [len({request.block_ids[:-1] for request in group}) for group in groups] == [1] * 4
    assert len({request.block_ids[-1] for request in requests}) == len(requests)
    assert len({request.context_len for request in requests}) == 5
    assert all((request.context_len % 16 == 0) == begins for request in requests)


def test_the_missing_page_stands_behind_a_shared_one() -> None:
    requests = _requests("a page missing behind a shared one")
    assert len(_pages(requests, 0)) == 1
    assert {*_pages(requests, 2)} == {-1}


@pytest.mark.parametrize(("name", "alone"), [("a burst that shares", 9), ("all but the first share", 1)])
def test_some_share_a_prompt_and_the_first_ones_nothing(name: str, alone: int) -> None:
    requests = _requests(name)
    assert len(_pages(requests[alone:], 0)) == len(_pages(requests[alone:], 4)) == 1
    assert len(_pages(requests, 0)) == alone + 1


def test_pages_behind_which_windows_begin_are_given_back() -> None:
    requests = _requests("behind freed pages")
    assert {request.block_ids[:6] for request in requests} == {(-1,) * 6}
    assert all(min(request.block_ids[6:]) >= 0 for request in requests)
    assert [request.query_len for request in requests[-2:]] == [300, 300]
    assert all(request.context_len - 64 >= 6 * 16 for request in requests)
