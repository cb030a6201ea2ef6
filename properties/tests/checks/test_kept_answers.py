"""Functions that keep an answer by less than what it depends on are found, whatever they keep it by."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from cumae.oracle import Batch, Case, Request
from cumae.properties.cases.domain import Domain
from cumae.properties.checks import Trial
from cumae.properties.checks.forgets_history import forgets_history
from cumae.properties.operations.binding import binding_of
from cumae.properties.running.device import prepare
from cumae.properties.search.direct import check
from cumae.properties.tests.functions.wrong_on_purpose import right_positions

DEVICE = prepare("auto")
Tensor = torch.Tensor
Key = Callable[[Tensor, Tensor, Tensor], Any]


def by_objects(*tensors: Tensor) -> Any:
    """Return ids, as a cache that compares arguments with ``is``; the tensors live as long as the key."""
    return [id(tensor) for tensor in tensors], tensors


def by_versions(*tensors: Tensor) -> Any:
    """Return addresses and versions: kernels, and copies of a graph, change memory without a new version."""
    return [(tensor.data_ptr(), tensor._version, tensor.shape) for tensor in tensors]


def by_sums(*tensors: Tensor) -> Any:
    """Return what stays if requests change places."""
    return [(len(tensor), tensor.dtype, tensor.sum().item()) for tensor in tensors[::2]]


def by_ends(token_to_request: Tensor, cu_seqlens_q: Tensor, context_lens: Tensor) -> Any:
    """Return what stays if requests inside the batch change places."""
    ends = [*context_lens[:1].tolist(), *context_lens[-1:].tolist()]
    return [*ends, len(token_to_request), len(context_lens), context_lens.dtype, context_lens.sum().item()]


def keeping(key: Key, *, returns: bool) -> Any:
    """Return a function that keeps its last answer by a key of its arguments."""
    last: dict[str, Any] = {"key": None}

    def answer(token_to_request: Tensor, cu_seqlens_q: Tensor, context_lens: Tensor) -> Tensor:
        now = key(token_to_request, cu_seqlens_q, context_lens)
        told = now[0] if isinstance(now, tuple) else now
        if last["key"] is None or last["told"] != told:
            last.update(
                key=now, told=told, right=right_positions(token_to_request, cu_seqlens_q, context_lens)
            )
        kept: Tensor = last["right"]
        return kept.clone()

    def write(
        token_to_request: Tensor, cu_seqlens_q: Tensor, context_lens: Tensor, position_ids: Tensor
    ) -> None:
        position_ids.copy_(answer(token_to_request, cu_seqlens_q, context_lens))

    return answer if returns else write


@pytest.mark.parametrize("returns", [False, True])
@pytest.mark.parametrize("key", [by_objects, by_versions, by_sums, by_ends])
def test_an_answer_that_is_kept_too_long_is_found(key: Key, returns: bool) -> None:
    domain = Domain(captured=False, all_but=("never_synchronises",))
    verdict = check(keeping(key, returns=returns), "position_ids", domain=domain, examples=40, save_to=None)
    assert verdict.failure is not None
    assert verdict.failure.finding.check == "forgets_history"


def test_an_answer_that_is_kept_by_shortened_texts_is_found() -> None:
    def by_texts(*tensors: Tensor) -> Any:
        return [str(tensor) for tensor in tensors]  # of more than 1,000 elements, three at each end

    requests = tuple(Request(b % 7, 2, (b,)) for b in range(1024))
    binding = binding_of(keeping(by_texts, returns=True), "position_ids")
    trials = (Trial(binding, Case(Batch(requests, 16)), DEVICE, number=number) for number in (0, 1))
    assert [forgets_history(trial) is None for trial in trials] == [True, False]


def test_an_answer_kept_by_all_that_it_depends_on_is_right() -> None:
    def by_content(*tensors: Tensor) -> Any:
        return [(tensor.dtype, tensor.tolist()) for tensor in tensors]

    domain, kept = Domain(captured=False, all_but=("never_synchronises",)), keeping(by_content, returns=True)
    verdict = check(kept, "position_ids", domain=domain, examples=40, save_to=None)
    assert verdict, verdict
