"""Instances of a class do not disturb each other, and each request of a step counts."""

from typing import Any

import pytest
import torch

from cumae.fixtures.limits import histories_of_pages
from cumae.gpu_impl import MetadataCache
from cumae.oracle import Case, Trace
from cumae.properties.cases.domain import Domain
from cumae.properties.operations.binding import binding_of
from cumae.properties.operations.targets import load_function
from cumae.properties.results.verdict import Failure
from cumae.properties.running.device import prepare
from cumae.properties.running.observation import KernelRaised
from cumae.properties.search.budget import Budget
from cumae.properties.search.loop import search
from cumae.properties.state.system import System
from cumae.properties.tests.given.traces import step_of

DEVICE = prepare("auto")


class KeyOfTheClass(MetadataCache):
    """Keeps its key in the class, where another instance overwrites it."""

    shared: Any = None

    @property
    def _key(self) -> Any:
        return type(self).shared

    @_key.setter
    def _key(self, key: Any) -> None:
        type(self).shared = key


class OneOfItsKind(MetadataCache):
    """Refuses to work once another instance has worked."""

    working: "OneOfItsKind | None" = None

    def _key_of(self, num_tokens: int, context_lens: torch.Tensor, query_lens: torch.Tensor) -> Any:
        working = type(self).working
        type(self).working = working = self if working is None else working
        if working is not self:
            raise RuntimeError("there is another one")
        return super()._key_of(num_tokens, context_lens, query_lens)


class KeyOfTheFirst(MetadataCache):
    """Compares the lengths of the first 64 requests, and how many bytes all have."""

    def _key_of(self, num_tokens: int, context_lens: torch.Tensor, query_lens: torch.Tensor) -> Any:
        count, queries, contexts = super()._key_of(num_tokens, context_lens, query_lens)
        return count, queries, contexts[: 4 * 64] + bytes([len(contexts) % 251])


def failure_of(function: Any, *, reduce: bool) -> Failure:
    binding = binding_of(function, "metadata_cache")
    verdict = search(binding, DEVICE, Budget(examples=300, seed=1), reduce=reduce)
    assert verdict.failure is not None
    return verdict.failure


def test_a_key_of_the_class_is_found_between_two_instances() -> None:
    failure = failure_of(KeyOfTheClass, reduce=True)
    assert failure.trace is not None and failure.finding.check == "forgets_history"
    assert failure.finding.message.endswith("; before step 3, another instance was called on step 1")


def test_a_fault_of_one_instance_is_not_laid_on_another() -> None:
    limit = next(limit for limit in histories_of_pages.LIMITS if limit.operation == "page_table")
    steps = limit.witness and limit.witness()
    binding = binding_of(load_function(limit.target), "page_table", domain=Domain(captured=False))
    assert isinstance(steps, Trace)
    verdict = search(binding, DEVICE, Budget(examples=0), checks=["forgets_history"], first=[steps])
    assert verdict.failure is not None and verdict.failure.trace is not None
    assert len(verdict.failure.trace.steps) == 3
    assert "another instance" not in verdict.failure.finding.message


def test_a_key_of_the_first_requests_is_found_where_a_later_one_changes() -> None:
    failure = failure_of(KeyOfTheFirst, reduce=False)
    assert failure.trace is not None and failure.finding.check == "forgets_history"
    first, last = failure.trace.steps[-2:]
    changed = zip(first.batch.requests, last.batch.requests, strict=True)
    assert next(b for b, (before, after) in enumerate(changed) if before != after) >= 64


def test_an_instance_that_raises_beside_another_is_told() -> None:
    system = System(binding_of(OneOfItsKind, "metadata_cache"), DEVICE)
    steps = [Case(step_of((context_len, 1))) for context_len in (3, 4, 5)]
    assert [system.step(step) for step in steps[:2]] == [None, None]
    with pytest.raises(KernelRaised, match=r"there is another one.*, in a call of another instance"):
        system.step(steps[2])
