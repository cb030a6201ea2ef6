"""Bugs that were shipped, and others, under SGLang's names are caught."""

from typing import Any

import pytest
import torch

from cumae.fixtures.correct.sglang import topk_to_slots
from cumae.properties.cases.domain import Domain
from cumae.properties.checks import checks_for
from cumae.properties.operations.binding import binding_of
from cumae.properties.results.verdict import Verdict
from cumae.properties.running.device import prepare
from cumae.properties.search.budget import Budget
from cumae.properties.search.first_cases import fixture_cases
from cumae.properties.search.loop import search
from cumae.properties.tests.functions.right_for_sglang import (
    chunks_like_sglang,
    offsets,
    rows_and_positions,
    selected_in_pool,
    slots_by_lookup,
)

DEVICE = prepare("auto")


def verdict_on(function: Any, operation: str, domain: Domain | None = None) -> Verdict:
    binding = binding_of(function, operation, "sglang", domain)
    return search(
        binding, DEVICE, Budget(examples=60), checks=checks_for(binding), first=fixture_cases(binding)
    )


def loop_index_as_row(
    req_to_token: Any,
    req_pool_indices: Any,
    extend_prefix_lens: Any,
    extend_seq_lens: Any,
    out_cache_loc: Any,
) -> None:
    """sglang#26534: the index of the loop over requests stands for the pool row."""
    row = torch.arange(req_pool_indices.numel(), device=req_pool_indices.device)
    slots_by_lookup(req_to_token, row, extend_prefix_lens, extend_seq_lens, out_cache_loc)


def padding_kept(
    req_to_token: Any,
    req_pool_indices: Any,
    extend_prefix_lens: Any,
    extend_seq_lens: Any,
    out_cache_loc: Any,
) -> None:
    """sglang#24743: padded tokens keep the slots of the previous replay."""
    b, position = rows_and_positions(extend_prefix_lens, extend_seq_lens)
    out_cache_loc[: b.numel()] = req_to_token[req_pool_indices[b], position].long()


def minus_one_for_padding(
    req_to_token: Any,
    req_pool_indices: Any,
    extend_prefix_lens: Any,
    extend_seq_lens: Any,
    out_cache_loc: Any,
) -> None:
    """Another engine's padding: -1 does not skip in SGLang."""
    out_cache_loc.fill_(-1)
    padding_kept(req_to_token, req_pool_indices, extend_prefix_lens, extend_seq_lens, out_cache_loc)


def new_tokens_counted_twice(seq_lens: Any, kv_indptr: Any) -> None:
    """sglang#26651: kv_indptr counts the new tokens, which an extend hands over apart."""
    kv_indptr.copy_(offsets(seq_lens))


def start_not_added(extend_prefix_lens: Any, extend_seq_lens: Any, ks: Any, ke: Any) -> None:
    """sglang#20606: windows lack the start of their request's keys."""
    b, position = rows_and_positions(extend_prefix_lens, extend_seq_lens)
    ks[: b.numel()] = 0
    ke[: b.numel()] = (position + 1).int()


def selected_of_the_first_requests(page_table_1: Any, topk_indices: Any, result: Any) -> None:
    """Right for a decode, called on an extend: rows of the table are requests there, not tokens."""
    row = torch.arange(topk_indices.shape[0], device=topk_indices.device).clamp(max=page_table_1.shape[0] - 1)
    if topk_indices.numel() and page_table_1.numel():
        found = page_table_1[row[:, None], topk_indices.clamp(min=0).long()]
        result.copy_(torch.where(topk_indices >= 0, found, -1))
    else:
        result.fill_(-1)


def none_read_as_the_first(
    req_to_token: Any,
    req_pool_indices: Any,
    extend_prefix_lens: Any,
    extend_seq_lens: Any,
    topk_indices: Any,
    result: Any,
) -> None:
    """A row that selects nothing reads position 0."""
    chosen = topk_indices.clamp(min=0)
    selected_in_pool(req_to_token, req_pool_indices, extend_prefix_lens, extend_seq_lens, chosen, result)


def share_of_those_with_a_prefix(
    extend_prefix_lens: Any, extend_prefix_lens_cpu: Any, chunk_capacity: int
) -> tuple[Any, ...]:
    """Another engine's chunks: the room is shared among the requests that have a prefix."""
    count = int(torch.count_nonzero(extend_prefix_lens_cpu))
    length = chunk_capacity // max(count, 1)
    num_chunks = -(-int(extend_prefix_lens_cpu.max()) // length) if count else 0
    return chunks_like_sglang(extend_prefix_lens, num_chunks, length)


def nothing_left_of_a_negative_number(
    extend_prefix_lens: Any, num_prefix_chunks: int, prefix_chunk_len: int
) -> tuple[Any, ...]:
    """A chunk behind the prefix has a negative length."""
    return chunks_like_sglang(extend_prefix_lens, num_prefix_chunks, prefix_chunk_len, least=None)


def tables_by_request_always(
    forward_mode: str,
    page_table_1: Any,
    token_to_batch_idx: Any,
    topk_indices: Any,
    num_token_non_padded: int,
) -> Any:
    """Rows of the table are tokens in a verify step, where several of them are one request's."""
    n = num_token_non_padded
    result = torch.full_like(topk_indices, -1)
    if n:
        table = page_table_1[token_to_batch_idx[:n].long()]
        found = table.gather(1, topk_indices[:n].clamp(min=0).long())
        result[:n] = torch.where(topk_indices[:n] >= 0, found, -1)
    return result


def stops_at_the_first_none(
    forward_mode: str,
    page_table_1: Any,
    token_to_batch_idx: Any,
    topk_indices: Any,
    num_token_non_padded: int,
) -> Any:
    """Positions selected behind a -1 are left out."""
    given = (num_token_non_padded, page_table_1, token_to_batch_idx)
    found = topk_to_slots(forward_mode, *given, topk_indices)
    return torch.where((topk_indices < 0).cumsum(1) > 0, -1, found)


def padding_looked_up(page_table_1: Any, topk_indices: Any, extend_seq_lens_cpu: Any) -> Any:
    """Rows of padding are looked up like those of the last request."""
    counts = extend_seq_lens_cpu.tolist()
    rows = [b for b, count in enumerate(counts) for _ in range(count)]
    rows += [max(rows, default=0)] * (topk_indices.shape[0] - len(rows))
    if 0 in page_table_1.shape:
        return torch.full_like(topk_indices, -1)
    table = page_table_1[torch.tensor(rows, dtype=torch.long, device=page_table_1.device)]
    found = table.gather(1, topk_indices.clamp(0, table.shape[1] - 1).long())
    return torch.where(topk_indices >= 0, found, -1)


EXTENDS = Domain(phases=("prefill",))


@pytest.mark.parametrize(
    ("function", "domain", "size"),
    [
        (tables_by_request_always, None, 2),
        (stops_at_the_first_none, None, 3),
        (padding_looked_up, EXTENDS, 1),
    ],
)
def test_what_modes_padding_and_scattered_selections_show_is_caught(
    function: Any, domain: Domain | None, size: int
) -> None:
    for seed in range(3):
        binding = binding_of(function, "topk_to_slots", "sglang", domain)
        verdict = search(binding, DEVICE, Budget(examples=150, seed=seed), checks=("agrees",))
        assert verdict.failure is not None
        assert len(verdict.failure.case.batch.requests) <= size


@pytest.mark.parametrize(
    ("function", "operation", "check", "size"),
    [
        (selected_of_the_first_requests, "topk_to_slots", "agrees", 2),
        (none_read_as_the_first, "topk_to_slots", "agrees", 1),
        (share_of_those_with_a_prefix, "chunked_context", "agrees", 2),
        (nothing_left_of_a_negative_number, "chunked_context", "agrees", 2),
        (loop_index_as_row, "slot_mapping", "agrees", 1),
        (padding_kept, "slot_mapping", "writes_everything", 1),
        (minus_one_for_padding, "slot_mapping", "agrees", 1),
        (new_tokens_counted_twice, "sequence_layout", "agrees", 1),
        (start_not_added, "causal_windows", "agrees", 2),
    ],
)
def test_a_bug_that_was_shipped_is_caught(function: Any, operation: str, check: str, size: int) -> None:
    verdict = verdict_on(function, operation)
    assert verdict.failure is not None
    assert verdict.failure.finding.check == check
    assert len(verdict.failure.case.batch.requests) <= size


@pytest.mark.parametrize("operation", ["sequence_layout", "kv_indices"])
def test_whole_sequences_are_told_as_another_form_not_as_off_by_one(operation: str) -> None:
    def whole(cache_seqlens_int32: Any, kv_indptr: Any) -> None:
        kv_indptr.copy_(offsets(cache_seqlens_int32))

    verdict = verdict_on(whole, operation)
    assert verdict.failure is not None
    finding = verdict.failure.finding
    assert finding.cause.startswith("whole sequences are counted: in `extend` only extend_prefix_lens are")
    assert "or off by one" not in finding.cause and "extend_prefix_lens in `extend`" in finding.rule

    def one_more(seq_lens: Any, kv_indptr: Any, extend_prefix_lens: Any, forward_mode: str) -> None:
        kv_indptr.copy_(offsets(extend_prefix_lens if forward_mode == "extend" else seq_lens))
        kv_indptr[1:] += 1

    verdict = verdict_on(one_more, operation)
    assert verdict.failure is not None and "off by one" in verdict.failure.finding.cause
