"""Instances of a class do not disturb each other, and each request of a step counts."""

from typing import Any

import pytest
import torch

from cumae.gpu_impl import MetadataCache
from cumae.properties.operations.binding import binding_of
from cumae.properties.running.device import prepare
from cumae.properties.search.budget import Budget
from cumae.properties.search.loop import search

DEVICE = prepare("auto")


class KeyOfTheClass(MetadataCache):
    """Keeps its key in the class, where another instance overwrites it."""

    shared: Any = None

    def __init__(
        self, max_num_tokens: int, topk: int, split_size: int, num_workers: int, device: torch.device
    ) -> None:
        super().__init__(max_num_tokens, topk, split_size, num_workers, device)
        type(self).shared = None

    def __call__(
        self,
        context_lens_cpu: torch.Tensor | None,
        query_lens_cpu: torch.Tensor | None,
        token_to_request: torch.Tensor,
        cu_seqlens_q: torch.Tensor,
        context_lens: torch.Tensor,
    ) -> Any:
        self._key = type(self).shared
        told = context_lens_cpu, query_lens_cpu, token_to_request, cu_seqlens_q, context_lens
        answer = super().__call__(*told)
        type(self).shared = self._key
        return answer


class KeyOfTheFirst(MetadataCache):
    """Compares the lengths of the first 64 requests, and how many bytes all have."""

    def _key_of(self, num_tokens: int, context_lens: torch.Tensor, query_lens: torch.Tensor) -> Any:
        count, queries, contexts = super()._key_of(num_tokens, context_lens, query_lens)
        return count, queries, contexts[: 4 * 64] + bytes([len(contexts) % 251])


@pytest.mark.parametrize(
    ("function", "told"),
    [(KeyOfTheClass, "before step 3, another instance was called on step 1"), (KeyOfTheFirst, "differs")],
)
def test_a_key_that_is_not_an_instances_own_or_not_whole_is_found(function: Any, told: str) -> None:
    binding = binding_of(function, "metadata_cache")
    failure = search(binding, DEVICE, Budget(examples=300, seed=1), reduce=told != "differs").failure
    assert failure is not None and failure.trace is not None
    assert failure.finding.check == "forgets_history"
    assert told in failure.finding.message, failure.finding
