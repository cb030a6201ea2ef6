"""Kernels that are right under FastDeploy's names."""

import torch


def layout_of_requests(
    seq_lens_this_time: torch.Tensor,
    seq_lens_decoder: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    batch_id_per_token: torch.Tensor,
) -> None:
    cu_seqlens_q[0] = cu_seqlens_k[0] = 0
    cu_seqlens_q[1:] = seq_lens_this_time.cumsum(0)
    cu_seqlens_k[1:] = (seq_lens_this_time + seq_lens_decoder.flatten()).cumsum(0)
    requests = torch.arange(
        len(seq_lens_this_time), device=seq_lens_this_time.device, dtype=batch_id_per_token.dtype
    )
    live = requests.repeat_interleave(seq_lens_this_time.long())
    batch_id_per_token.fill_(-1)
    batch_id_per_token[: len(live)] = live


def positions_of_tokens(
    seq_lens_encoder: torch.Tensor,
    seq_lens_decoder: torch.Tensor,
    seq_lens_this_time: torch.Tensor,
    position_ids: torch.Tensor,
) -> None:
    row = 0
    lens = zip(
        seq_lens_encoder.flatten().tolist(),
        seq_lens_decoder.flatten().tolist(),
        seq_lens_this_time.tolist(),
        strict=True,
    )
    for encoder, context_len, this_time in lens:
        for i in range(max(encoder, this_time)):
            position_ids[row + i] = context_len + i
        row += max(encoder, this_time)


def positions_and_slots(
    seq_lens_decoder: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    batch_id_per_token: torch.Tensor,
    block_tables: torch.Tensor,
    block_size: int,
    token_num: int,
    position_ids: torch.Tensor,
    slot_mapping: torch.Tensor,
) -> None:
    if token_num == 0:
        return
    request = batch_id_per_token[:token_num].long()
    rows = torch.arange(token_num, device=request.device)
    position = seq_lens_decoder[request, 0] + rows - cu_seqlens_q[request]
    position_ids[:token_num] = position
    blocks = block_tables[request, position // block_size].long()
    slot_mapping[:token_num] = blocks * block_size + position % block_size


def slots_of_positions(
    positions: torch.Tensor,
    batch_id_per_token: torch.Tensor,
    block_tables: torch.Tensor,
    block_size: int,
    slot_mapping: torch.Tensor,
) -> None:
    live = torch.nonzero(batch_id_per_token >= 0).flatten()
    if len(live):
        request, position = batch_id_per_token[live].long(), positions[live].long()
        slot_mapping[live] = block_tables[request, position // block_size].long() * block_size
        slot_mapping[live] += position % block_size


def windows_of_tokens(
    seq_lens_encoder: torch.Tensor,
    seq_lens_decoder: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    batch_id_per_token: torch.Tensor,
    ks: torch.Tensor,
    ke: torch.Tensor,
) -> None:
    ks.zero_()
    ke.zero_()
    live = torch.nonzero(batch_id_per_token >= 0).flatten()
    live = live[seq_lens_encoder[batch_id_per_token[live].long(), 0] > 0]
    b = batch_id_per_token[live].long()
    ks[live] = cu_seqlens_k[b].to(ks.dtype)
    ke[live] = (cu_seqlens_k[b] + seq_lens_decoder[b, 0] + live - cu_seqlens_q[b] + 1).to(ke.dtype)


def keys_of_cache_and_tokens(
    latent_cache: torch.Tensor,
    block_tables: torch.Tensor,
    compressed_kv: torch.Tensor,
    key_pe: torch.Tensor,
    cu_seqlens_cached_kv: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    kv_lora_rank: int,
    block_size: int,
    full_compressed_kv: torch.Tensor,
    full_k_pe: torch.Tensor,
) -> None:
    row = 0
    cached, new = cu_seqlens_cached_kv.tolist(), cu_seqlens_q.tolist()
    for b in range(len(cached) - 1):
        num_cached = cached[b + 1] - cached[b]
        position = torch.arange(num_cached, device=latent_cache.device)
        latents = latent_cache[block_tables[b, position // block_size].long(), 0, position % block_size]
        full_compressed_kv[row : row + num_cached] = latents[:, :kv_lora_rank]
        full_k_pe[row : row + num_cached] = latents[:, kv_lora_rank:]
        row += num_cached
        num_new = new[b + 1] - new[b]
        full_compressed_kv[row : row + num_new] = compressed_kv[new[b] : new[b + 1]]
        full_k_pe[row : row + num_new] = key_pe[new[b] : new[b + 1]]
        row += num_new
