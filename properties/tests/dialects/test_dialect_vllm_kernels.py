"""The dialect of vLLM on implementations right and wrong, by its names."""

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

DEVICE = prepare("auto")


def layout_of_requests(
    seq_lens: torch.Tensor,
    num_computed_tokens: torch.Tensor,
    query_start_loc: torch.Tensor,
    req_id_per_token: torch.Tensor,
) -> None:
    query_lens = seq_lens - num_computed_tokens
    query_start_loc[0] = 0
    query_start_loc[1:] = query_lens.cumsum(0)
    requests = torch.arange(len(query_lens), device=query_lens.device, dtype=torch.int32)
    live = requests.repeat_interleave(query_lens.long())
    req_id_per_token.zero_()
    req_id_per_token[: len(live)] = live


def positions_of_tokens(
    query_start_loc: torch.Tensor, num_computed_tokens: torch.Tensor, positions: torch.Tensor
) -> None:
    positions.zero_()
    for b, context_len in enumerate(num_computed_tokens.tolist()):
        start, stop = query_start_loc[b : b + 2].tolist()
        positions[start:stop] = torch.arange(context_len, context_len + stop - start)


def request_of(query_start_loc: torch.Tensor, num_tokens: int) -> torch.Tensor:
    tokens = torch.arange(num_tokens, device=query_start_loc.device, dtype=torch.int32)
    return torch.searchsorted(query_start_loc, tokens, right=True) - 1


def slots_by_virtual_block(
    query_start_loc: torch.Tensor,
    positions: torch.Tensor,
    block_table: torch.Tensor,
    block_size: int,
    kernel_block_size: int,
    num_tokens: int,
    dcp_world_size: int,
    dcp_rank: int,
    cp_kv_cache_interleave_size: int,
    slot_mapping: torch.Tensor,
) -> None:
    slot_mapping.fill_(-1)
    if num_tokens == 0:
        return
    world, run = dcp_world_size, cp_kv_cache_interleave_size
    request = request_of(query_start_loc, num_tokens)
    block, offset = (
        positions[:num_tokens] // (block_size * world),
        positions[:num_tokens] % (block_size * world),
    )
    local = offset // (world * run) * run + offset % run
    column = block * (block_size // kernel_block_size) + local // kernel_block_size
    slots = block_table[request, column].long() * kernel_block_size + local % kernel_block_size
    slot_mapping[:num_tokens] = torch.where(offset // run % world == dcp_rank, slots, -1)


def windows_of_a_chunk(
    prefill_query_start_loc: torch.Tensor,
    uncompressed_seq_lens: torch.Tensor,
    local_cu_seq_lens: torch.Tensor,
    num_prefill_tokens: int,
    compress_ratio: int,
    dcp_world_size: int,
    dcp_rank: int,
    cp_kv_cache_interleave_size: int,
    cu_seqlen_ks: torch.Tensor,
    cu_seqlen_ke: torch.Tensor,
) -> None:
    if num_prefill_tokens == 0:
        return
    world, run = dcp_world_size, cp_kv_cache_interleave_size
    request = request_of(prefill_query_start_loc, num_prefill_tokens)
    behind = torch.arange(num_prefill_tokens, device=request.device) - prefill_query_start_loc[request + 1]
    visible = (uncompressed_seq_lens[request] + behind + 1) // compress_ratio
    rest = (visible % (world * run) - dcp_rank * run).clamp(0, run)
    cu_seqlen_ks.copy_(local_cu_seq_lens[request])
    cu_seqlen_ke.copy_(local_cu_seq_lens[request] + visible // (world * run) * run + rest)


def slots_of_selected_tokens(
    req_id: torch.Tensor,
    block_table: torch.Tensor,
    token_indices: torch.Tensor,
    BLOCK_SIZE: int,
    dcp_size: int,
    dcp_rank: int,
    cp_kv_cache_interleave_size: int,
    prefill_workspace_request_ids: torch.Tensor | None,
    prefill_workspace_starts: torch.Tensor | None,
    out: torch.Tensor,
) -> None:
    out.fill_(-1)
    if 0 in block_table.shape:
        return
    run, token = cp_kv_cache_interleave_size, token_indices.long()
    local = token // (dcp_size * run) * run + token % run
    column = local // BLOCK_SIZE
    mine = (token >= 0) & (token // run % dcp_size == dcp_rank) & (column < block_table.shape[1])
    block = block_table[req_id.long()[:, None], torch.where(mine, column, 0)].long()
    slots = torch.where(mine, block * BLOCK_SIZE + local % BLOCK_SIZE, -1)
    if prefill_workspace_request_ids is not None and prefill_workspace_starts is not None:
        for row, request in enumerate(prefill_workspace_request_ids.tolist()):
            if request >= 0:
                placed = prefill_workspace_starts[request] + token[row]
                slots[row] = torch.where(token[row] >= 0, placed, -1)
    out.copy_(slots)


def slots_in_front(
    req_id: torch.Tensor,
    block_table: torch.Tensor,
    token_indices: torch.Tensor,
    BLOCK_SIZE: int,
    dcp_size: int,
    dcp_rank: int,
    cp_kv_cache_interleave_size: int,
) -> dict[str, torch.Tensor]:
    """Return the slots of each row, the last selected first."""
    rows = torch.empty_like(token_indices)
    given = (BLOCK_SIZE, dcp_size, dcp_rank, cp_kv_cache_interleave_size, None, None)
    slots_of_selected_tokens(req_id, block_table, token_indices, *given, rows)
    rows = rows.flip(1)
    order = (rows < 0).int().sort(dim=1, stable=True).indices
    return {"out": rows.gather(1, order), "valid_counts": (rows >= 0).sum(1).int()}


def chunks_of_context(
    context_lens_tensor: torch.Tensor,
    chunked_prefill_workspace_size: int,
    num_prefills_with_context_cpu: int,
    max_context_len_cpu: int,
    block_size: int,
) -> dict[str, torch.Tensor]:
    count, device = len(context_lens_tensor), context_lens_tensor.device
    size = chunked_prefill_workspace_size // max(num_prefills_with_context_cpu, 1) // block_size * block_size
    starts = torch.arange(0, max_context_len_cpu, size, dtype=torch.int32, device=device)[:, None]
    lens = (context_lens_tensor - starts).clamp(0, size)
    ends = torch.zeros(len(starts), count + 1, dtype=torch.int32, device=device)
    ends[:, 1:] = lens.cumsum(1)
    longest = lens.amax(1) if len(starts) else starts.flatten()
    return {
        "context_chunk_starts": starts.expand(-1, count),
        "context_chunk_seq_lens": lens,
        "context_chunk_cu_seq_lens": ends,
        "context_chunk_seq_tot": ends[:, -1].contiguous(),
        "context_chunk_max_seq_lens": longest,
    }


RIGHT: dict[str, Callable[..., Any]] = {
    "sequence_layout": layout_of_requests,
    "position_ids": positions_of_tokens,
    "slot_mapping": slots_by_virtual_block,
    "causal_windows": windows_of_a_chunk,
    "topk_to_slots": slots_of_selected_tokens,
    "compact_topk_slots": slots_in_front,
    "chunked_context": chunks_of_context,
}


def verdict_on(function: Callable[..., Any], operation: str) -> Verdict:
    binding = binding_of(function, operation, "vllm")
    return search(
        binding, DEVICE, Budget(examples=60, seed=3), checks=checks_for(binding), first=fixture_cases(binding)
    )


@pytest.mark.parametrize("operation", RIGHT)
def test_a_right_kernel_passes_every_check(operation: str) -> None:
    verdict = verdict_on(RIGHT[operation], operation)
    assert verdict.failure is None, verdict.failure
    assert verdict.cases >= 60


def test_the_launcher_of_the_design_document_binds() -> None:
    def mine(
        query_start_loc: torch.Tensor,
        positions: torch.Tensor,
        block_table: torch.Tensor,
        block_size: int,
        num_tokens: int,
        slot_mapping: torch.Tensor,
        TILE: int = 1024,
    ) -> None:
        slots_by_virtual_block(
            query_start_loc, positions, block_table, block_size, block_size, num_tokens, 1, 0, 1, slot_mapping
        )

    assert verdict_on(mine, "slot_mapping").ok


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
    failure = verdict_on(chunks_that_cut_blocks, "chunked_context").failure
    assert failure is not None
    assert failure.finding.check == "agrees"
