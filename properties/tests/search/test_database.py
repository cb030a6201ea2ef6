"""Failures shared by machines, through any example database of Hypothesis."""

import json
from pathlib import Path

import pytest
import torch
from hypothesis.database import DirectoryBasedExampleDatabase, InMemoryExampleDatabase

from cumae.properties.operations.binding import binding_of
from cumae.properties.results.verdict import Verdict
from cumae.properties.running.device import prepare
from cumae.properties.search.budget import Budget
from cumae.properties.search.database import MOST_FETCHED, Shared, address_of
from cumae.properties.search.first_cases import first_cases
from cumae.properties.search.isolated import searching
from cumae.properties.search.job import Job
from cumae.properties.search.loop import search
from cumae.properties.search.process import Answer
from cumae.properties.tests.functions.wrong_on_purpose import right_positions
from cumae.properties.tests.given.cases_by_hand import SMALL

DEVICE = prepare("auto")
KEY = ("position_ids", "cumae")


def far_wrong(
    token_to_request: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    context_lens: torch.Tensor,
    position_ids: torch.Tensor,
) -> None:
    """Wrong only beyond position 700."""
    right = right_positions(token_to_request, cu_seqlens_q, context_lens)
    position_ids.copy_(right + (right > 700))


def searched(shared: Shared, part: str = "") -> Verdict:
    binding = binding_of(far_wrong, "position_ids")
    found = shared.fetched(*KEY, binding.name, ("agrees",))
    first = first_cases(binding, binding.name, None, ["agrees"], found)
    budget = Budget(examples=100)
    return search(
        binding, DEVICE, budget, checks=["agrees"], first=first, part=part, shared=shared, save_to=None
    )


def test_what_one_found_another_tries_first(tmp_path: Path) -> None:
    for database in (InMemoryExampleDatabase(), DirectoryBasedExampleDatabase(tmp_path)):
        one = searched(Shared(database, "memory"))
        assert one.failure is not None and one.failure.found_after > 1
        other = searched(Shared(database, "memory"))
        assert other.failure is not None and other.failure.found_after == 1
        assert other.failure.case == one.failure.case


def test_a_search_leaves_its_smallest_failure_alone() -> None:
    database = InMemoryExampleDatabase()
    verdict = searched(Shared(database, "memory"))
    ((value,),) = database.data.values()
    assert verdict.failure is not None
    assert Shared(database, "memory").fetched(*KEY, verdict.target) == [verdict.failure.tried]
    assert json.loads(value)["finding"]["check"] == "agrees"


def test_parts_of_a_search_replace_nothing_of_each_other() -> None:
    database = InMemoryExampleDatabase()
    shared = Shared(database, "memory")
    one = searched(shared, "1of2")
    assert one.failure is not None
    (values,) = database.data.values()
    before = set(values)
    shared.keep(one, one.failure)  # nothing new
    assert set(values) == before
    other = Shared(database, "memory")
    other.fetched(*KEY, one.target)
    searched(other, "2of2")
    assert before <= set(values)


def test_only_failures_of_the_checks_that_run_are_tried() -> None:
    database = InMemoryExampleDatabase()
    verdict = searched(Shared(database, "memory"))
    shared = Shared(database, "memory")
    assert shared.fetched(*KEY, verdict.target, ("keeps_facts",)) == []
    assert shared.fetched(*KEY, "another:target") == []
    assert len(shared.fetched(*KEY, verdict.target)) == 1


def test_an_entry_that_cannot_be_read_is_told_and_left_out() -> None:
    database = InMemoryExampleDatabase()
    verdict = searched(Shared(database, "memory"))
    ((key, values),) = database.data.items()
    database.save(key, b"{}")
    shared = Shared(database, "memory")
    assert len(shared.fetched(*KEY, verdict.target)) == 1
    assert "memory holds an entry that cannot be read: entry.version = None" in shared.trouble
    assert verdict.failure is not None
    shared.keep(verdict, verdict.failure)
    assert len(values) == 2


def test_a_search_tries_a_limited_number_of_failures() -> None:
    database = InMemoryExampleDatabase()
    verdict = searched(Shared(database, "memory"))
    ((key, values),) = database.data.items()
    for number in range(MOST_FETCHED + 6):
        content = json.loads(next(iter(values)))
        content["finding"]["message"] = f"another {number}"
        database.save(key, json.dumps(content).encode())
    assert len(Shared(database, "memory").fetched(*KEY, verdict.target)) == MOST_FETCHED


@pytest.mark.parametrize(
    ("given", "environment", "rule"),
    [
        ("http://host", {}, "--database = 'http://host', must begin with redis://, rediss:// or unix://"),
        (
            "redis://u:secret@host/0",
            {},
            "--database = 'redis://host/0', must hold no password: CUMAE",
        ),
        ("redis://host:here", {}, "--database = 'redis://host:here', must have a port from 0 to 65535"),
        ("", {"CUMAE_DATABASE": "host:6379"}, "CUMAE_DATABASE = 'host:6379', must begin with redis://"),
    ],
)
def test_a_bad_address_is_refused(given: str, environment: dict[str, str], rule: str) -> None:
    with pytest.raises(ValueError) as refused:
        address_of("--database", given, environment)
    assert str(refused.value).startswith(rule)


def test_a_failure_that_ends_its_process_is_shared_too(monkeypatch: pytest.MonkeyPatch) -> None:
    database = InMemoryExampleDatabase()
    plan = searching(Job(target="m:f", operation="position_ids", device="cpu", budget=Budget(examples=9)))
    shared = Shared(database, "memory")
    monkeypatch.setattr("cumae.properties.search.isolated.shared_at", lambda address: shared)
    next(plan)
    told = {"check": "agrees", "tried": SMALL, "verdict": Verdict("m:f", *KEY, ("agrees",), cases=4)}
    with pytest.raises(StopIteration) as ended:
        plan.send(Answer(death="the process died with signal 11", told=told))
    verdict = ended.value.value
    assert verdict.failure is not None and verdict.failure.tried == SMALL
    assert Shared(database, "memory").fetched(*KEY, "m:f") == [SMALL]
