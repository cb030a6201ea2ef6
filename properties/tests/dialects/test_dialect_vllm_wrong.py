"""Bugs that shipped under vLLM's names are found."""

from collections.abc import Callable
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
from cumae.properties.tests.functions.right_for_vllm import (
    chunks_of_context,
    layout_of_requests,
    request_of,
    slots_of_selected_tokens,
    windows_of_a_chunk,
)

DEVICE = prepare("auto")


def verdict_on(function: Callable[..., Any], operation: str, examples: int = 60) -> Verdict:
    binding = binding_of(function, operation, "vllm")
    budget = Budget(examples=examples, seed=3)
    return search(
        binding,
        DEVICE,
        budget,
        checks=checks_for(binding),
        first=fixture_cases(binding),
        reduce=examples <= 60,
    )


def padding_from_the_padded_count(
    query_start_loc: torch.Tensor,
    positions: torch.Tensor,
    block_table: torch.Tensor,
    block_size: int,
    num_tokens: int,
    num_actual_tokens: int,
    slot_mapping: torch.Tensor,
) -> None:
    """vllm#36580: slots of the step before stay between the true and the padded count."""
    request = request_of(query_start_loc, num_tokens)
    live = positions[:num_tokens]
    if num_tokens:
        slot_mapping[:num_tokens] = block_table[request, live // block_size] * block_size + live % block_size
    slot_mapping[num_actual_tokens:] = -1


def row_times_stride_in_32_bits(
    query_start_loc: torch.Tensor,
    positions: torch.Tensor,
    block_table: torch.Tensor,
    block_size: int,
    num_tokens: int,
    slot_mapping: torch.Tensor,
) -> None:
    """vllm#57030: the row's offset wraps; what lies before the table is read as block 0."""
    slot_mapping.fill_(-1)
    for t, request in enumerate(request_of(query_start_loc, num_tokens).tolist()):
        column, offset = divmod(int(positions[t]), block_size)
        wraps = request * block_table.stride(0) + column >= 2**31
        slot_mapping[t] = (0 if wraps else int(block_table[request, column])) * block_size + offset


def starts_in_tokens(
    prefill_query_start_loc: torch.Tensor,
    uncompressed_seq_lens: torch.Tensor,
    num_prefill_tokens: int,
    compress_ratio: int,
    cu_seqlen_ks: torch.Tensor,
    cu_seqlen_ke: torch.Tensor,
) -> None:
    """vllm#51252: rows of the chunk are counted in tokens where the buffer holds compressed rows."""
    starts = torch.zeros_like(prefill_query_start_loc)
    starts[1:] = uncompressed_seq_lens.cumsum(0)
    windows_of_a_chunk(
        prefill_query_start_loc,
        uncompressed_seq_lens,
        starts,
        num_prefill_tokens,
        compress_ratio,
        1,
        0,
        1,
        cu_seqlen_ks,
        cu_seqlen_ke,
    )


def padding_keeps_an_older_map(
    seq_lens: torch.Tensor,
    num_computed_tokens: torch.Tensor,
    query_start_loc: torch.Tensor,
    req_id_per_token: torch.Tensor,
) -> None:
    """TensorRT-LLM nvbugs 6513132: tokens of padding keep the request of an earlier step."""
    stale = req_id_per_token.clone()
    layout_of_requests(seq_lens, num_computed_tokens, query_start_loc, req_id_per_token)
    num_tokens = int(query_start_loc[-1])
    req_id_per_token[num_tokens:] = stale[num_tokens:]


def every_draft_of_request_zero(
    req_id: torch.Tensor,
    block_table: torch.Tensor,
    token_indices: torch.Tensor,
    BLOCK_SIZE: int,
    out: torch.Tensor,
) -> None:
    """TensorRT-LLM nvbugs 6513132: the map of an older step names request 0 for each token."""
    slots_of_selected_tokens(req_id * 0, block_table, token_indices, BLOCK_SIZE, 1, 0, 1, None, None, out)


def chunks_that_cut_blocks(
    context_lens_tensor: torch.Tensor,
    chunked_prefill_workspace_size: int,
    num_prefills_with_context_cpu: int,
    max_context_len_cpu: int,
) -> dict[str, torch.Tensor]:
    """A chunk may begin inside a block, where gathers from the cache cannot."""
    return chunks_of_context(
        context_lens_tensor,
        chunked_prefill_workspace_size,
        num_prefills_with_context_cpu,
        max_context_len_cpu,
        1,
    )


@pytest.mark.parametrize(
    ("function", "operation", "check"),
    [
        (padding_from_the_padded_count, "slot_mapping", "writes_everything"),
        (row_times_stride_in_32_bits, "slot_mapping", "survives_large_ids"),
        (starts_in_tokens, "causal_windows", "agrees"),
        (padding_keeps_an_older_map, "sequence_layout", "writes_everything"),
        (every_draft_of_request_zero, "topk_to_slots", "agrees"),
    ],
    ids=["vllm#36580", "vllm#57030", "vllm#51252", "nvbugs 6513132", "nvbugs 6513132, slots"],
)
def test_a_bug_that_shipped_is_found(function: Callable[..., Any], operation: str, check: str) -> None:
    failure = verdict_on(function, operation).failure
    assert failure is not None
    assert failure.finding.check == check


def test_chunks_that_cut_blocks_are_found() -> None:
    failure = verdict_on(chunks_that_cut_blocks, "chunked_context", examples=300).failure
    assert failure is not None
    assert failure.finding.check == "agrees"
