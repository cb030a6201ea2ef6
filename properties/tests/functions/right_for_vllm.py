"""Implementations that are right under vLLM's names."""

import torch


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
