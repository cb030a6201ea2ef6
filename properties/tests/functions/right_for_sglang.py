"""Implementations that are right under SGLang's names."""

from typing import Any

import torch


def offsets(lens: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.pad(torch.cumsum(lens, 0), (1, 0))


def rows_and_positions(prefix: torch.Tensor, lens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return request and position of each live token."""
    lens = lens.long()
    b = torch.repeat_interleave(torch.arange(lens.numel(), device=lens.device), lens)
    i = torch.arange(b.numel(), device=lens.device) - offsets(lens)[b]
    return b, prefix.long()[b] + i


def positions_of_extend(extend_prefix_lens: Any, extend_seq_lens: Any, positions: Any) -> None:
    _, found = rows_and_positions(extend_prefix_lens, extend_seq_lens)
    positions.zero_()
    positions[: found.numel()] = found


def positions_of_decode(seq_lens: Any, num_token_non_padded: int, positions: Any) -> None:
    positions.zero_()
    positions[:num_token_non_padded] = seq_lens[:num_token_non_padded] - 1


def positions_of_every_mode(
    forward_mode: str,
    draft_token_num: int,
    num_token_non_padded: int,
    seq_lens: Any,
    extend_seq_lens: Any,
    positions: Any,
) -> None:
    lens = extend_seq_lens
    cached = seq_lens if forward_mode == "verify" else seq_lens - lens
    _, found = rows_and_positions(cached, lens)
    assert found.numel() == num_token_non_padded
    positions.zero_()
    positions[: found.numel()] = found


def layout_of_step(
    forward_mode: str,
    draft_token_num: int,
    seq_lens: Any,
    extend_prefix_lens: Any,
    extend_seq_lens: Any,
    extend_start_loc: Any,
    qo_indptr: Any,
    cu_seqlens_q: Any,
    cu_seqlens_k: Any,
    kv_indptr: Any,
    token_to_batch_idx: Any,
) -> None:
    starts = offsets(extend_seq_lens)
    extend_start_loc.copy_(starts[:-1])
    qo_indptr.copy_(starts)
    cu_seqlens_q.copy_(starts)
    cu_seqlens_k.copy_(offsets(seq_lens + draft_token_num))
    kv_indptr.copy_(offsets(extend_prefix_lens if forward_mode == "extend" else seq_lens))
    b, _ = rows_and_positions(extend_prefix_lens, extend_seq_lens)
    token_to_batch_idx[: b.numel()] = b.int()


def slots_by_lookup(
    req_to_token: Any,
    req_pool_indices: Any,
    extend_prefix_lens: Any,
    extend_seq_lens: Any,
    out_cache_loc: Any,
) -> None:
    b, position = rows_and_positions(extend_prefix_lens, extend_seq_lens)
    out_cache_loc.zero_()
    out_cache_loc[: b.numel()] = req_to_token[req_pool_indices[b], position].long()


def slots_by_page(
    page_table: Any, page_size: int, extend_prefix_lens: Any, extend_seq_lens: Any, out_cache_loc: Any
) -> None:
    b, position = rows_and_positions(extend_prefix_lens, extend_seq_lens)
    out_cache_loc.zero_()
    page = page_table[b, position // page_size].long()
    out_cache_loc[: b.numel()] = page * page_size + position % page_size


def windows_of_extend(extend_prefix_lens: Any, extend_seq_lens: Any, ks: Any, ke: Any) -> None:
    b, position = rows_and_positions(extend_prefix_lens, extend_seq_lens)
    start = offsets(extend_prefix_lens + extend_seq_lens)[b]
    ks[: b.numel()] = start.int()
    ke[: b.numel()] = (start + position + 1).int()


def selected_in_pool(
    req_to_token: Any,
    req_pool_indices: Any,
    extend_prefix_lens: Any,
    extend_seq_lens: Any,
    topk_indices: Any,
    result: Any,
) -> None:
    """The slots of selected tokens without a page table of the step: those of the pool."""
    b, _ = rows_and_positions(extend_prefix_lens, extend_seq_lens)
    chosen = topk_indices[: b.numel()]
    result.fill_(-1)
    found = req_to_token[req_pool_indices[b][:, None], chosen.clamp(min=0).long()]
    result[: b.numel()] = torch.where(chosen >= 0, found, -1)


def chunks_of(
    extend_prefix_lens: Any,
    num_prefix_chunks: int,
    prefix_chunk_len: int,
    prefix_chunk_starts: Any,
    prefix_chunk_seq_lens: Any,
) -> None:
    for j in range(num_prefix_chunks):
        prefix_chunk_starts[j] = j * prefix_chunk_len
        left = extend_prefix_lens - j * prefix_chunk_len
        prefix_chunk_seq_lens[j] = left.clamp(0, prefix_chunk_len)


def chunks_like_sglang(prefixes: Any, num_chunks: int, length: int, least: int | None = 0) -> tuple[Any, ...]:
    starts = torch.arange(num_chunks, device=prefixes.device)[:, None] * length
    lens = (prefixes - starts).clamp(min=least, max=length)
    sums = torch.nn.functional.pad(lens.cumsum(1), (1, 0))
    longest = torch.nn.functional.pad(lens, (0, 1)).amax(1)
    found = (starts.expand_as(lens), lens, sums, lens.sum(1), longest)
    return tuple(part.int() for part in found)
