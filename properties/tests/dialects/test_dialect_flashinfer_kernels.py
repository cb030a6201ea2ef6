"""Implementations right and wrong under FlashInfer's names."""

from typing import Any

import pytest
import torch

from cumae.properties.checks import checks_for
from cumae.properties.operations.binding import binding_of
from cumae.properties.results.verdict import Verdict
from cumae.properties.running.device import prepare
from cumae.properties.search.budget import Budget
from cumae.properties.search.first_cases import fixture_cases
from cumae.properties.search.loop import search

DEVICE = prepare("auto")


def requests_of(append_indptr: torch.Tensor) -> torch.Tensor:
    """Return the request of each live token."""
    lens = append_indptr.diff().long()
    return torch.repeat_interleave(torch.arange(lens.numel(), device=lens.device), lens)


def positions_of(append_indptr: torch.Tensor, seq_lens: torch.Tensor) -> torch.Tensor:
    """Return the position of each live token."""
    b = requests_of(append_indptr)
    row = torch.arange(b.numel(), device=b.device)
    return row + (seq_lens - append_indptr[1:]).long()[b]


def batch_indices_of_tokens(append_indptr: Any, batch_indices: Any) -> None:
    b = requests_of(append_indptr)
    batch_indices.fill_(-1)
    batch_indices[: b.numel()] = b.int()


def positions_into_a_buffer(append_indptr: Any, seq_lens: Any, positions: Any) -> None:
    found = positions_of(append_indptr, seq_lens)
    positions[: found.numel()] = found.int()


def positions_allocated(append_indptr: Any, seq_lens: Any, nnz: int) -> Any:
    positions = torch.zeros(nnz, dtype=torch.int32, device=seq_lens.device)
    positions_into_a_buffer(append_indptr, seq_lens, positions)
    return positions


def positions_from_pages(
    qo_indptr: Any,
    paged_kv_indptr: Any,
    paged_kv_last_page_len: Any,
    page_size: int,
    batch_indices: Any,
    positions: Any,
) -> None:
    """As get_batch_indices_positions: both outputs, one of which is an input that already says the same."""
    seq_lens = (paged_kv_indptr.diff() - 1).clamp(min=0) * page_size + paged_kv_last_page_len
    batch_indices_of_tokens(qo_indptr, batch_indices)
    positions_into_a_buffer(qo_indptr, seq_lens, positions)


def slots_of_pages(
    batch_indices: Any,
    positions: Any,
    paged_kv_indptr: Any,
    paged_kv_indices: Any,
    page_size: int,
    slot_mapping: Any,
) -> None:
    live = batch_indices >= 0
    b, position = batch_indices[live].long(), positions[live].long()
    page = paged_kv_indices[paged_kv_indptr[b] + position // page_size].long()
    slot_mapping.fill_(-1)
    slot_mapping[: b.numel()] = page * page_size + position % page_size


def verdict_on(function: Any, operation: str) -> Verdict:
    binding = binding_of(function, operation, "flashinfer")
    return search(
        binding, DEVICE, Budget(examples=60), checks=checks_for(binding), first=fixture_cases(binding)
    )


@pytest.mark.parametrize(
    ("function", "operation"),
    [
        (batch_indices_of_tokens, "sequence_layout"),
        (positions_into_a_buffer, "position_ids"),
        (positions_allocated, "position_ids"),
        (positions_from_pages, "position_ids"),
        (slots_of_pages, "slot_mapping"),
    ],
)
def test_a_right_implementation_passes_every_check(function: Any, operation: str) -> None:
    verdict = verdict_on(function, operation)
    assert verdict.ok, verdict.failure
    assert verdict.cases >= 60


def wide_positions_read_as_narrow(append_indptr: Any, seq_lens: Any, positions: Any) -> None:
    """flashinfer#2255: positions are int64 and read as int32."""
    narrow = positions_of(append_indptr, seq_lens).view(torch.int32)
    positions[: narrow.numel() // 2] = narrow[: narrow.numel() // 2]


def padding_not_marked(append_indptr: Any, batch_indices: Any) -> None:
    """flashinfer#2792: padded tokens keep whatever the buffer held, and are written to its request."""
    b = requests_of(append_indptr)
    batch_indices[: b.numel()] = b.int()


def tokens_bound_by_pages(
    batch_indices: Any,
    positions: Any,
    paged_kv_indptr: Any,
    paged_kv_indices: Any,
    page_size: int,
    slot_mapping: Any,
) -> None:
    """flashinfer#810: a number of pages and one of tokens are held against each other."""
    slots_of_pages(batch_indices, positions, paged_kv_indptr, paged_kv_indices, page_size, slot_mapping)
    live = batch_indices >= 0
    b = batch_indices[live].long()
    outside = positions[live] >= paged_kv_indptr.diff()[b]
    slot_mapping[: b.numel()][outside] = -1


def slots_in_32_bits(
    batch_indices: Any,
    positions: Any,
    paged_kv_indptr: Any,
    paged_kv_indices: Any,
    page_size: int,
    slot_mapping: Any,
) -> None:
    """flashinfer#3136: page × stride in 32 bits."""
    slots_of_pages(batch_indices, positions, paged_kv_indptr, paged_kv_indices, page_size, slot_mapping)
    slot_mapping.copy_(slot_mapping.int())


@pytest.mark.parametrize(
    ("function", "operation", "check"),
    [
        (wide_positions_read_as_narrow, "position_ids", "agrees"),
        (padding_not_marked, "sequence_layout", "writes_everything"),
        (tokens_bound_by_pages, "slot_mapping", "agrees"),
        (slots_in_32_bits, "slot_mapping", "survives_large_ids"),
    ],
)
def test_a_bug_that_was_shipped_is_caught(function: Any, operation: str, check: str) -> None:
    verdict = verdict_on(function, operation)
    assert verdict.failure is not None
    assert verdict.failure.finding.check == check
    assert len(verdict.failure.case.batch.requests) <= 2
