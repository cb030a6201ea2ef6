"""Bugs that shipped under FastDeploy's names are found."""

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
from cumae.properties.tests.functions.right_for_fastdeploy import (
    layout_of_requests,
    slots_of_positions,
    windows_of_tokens,
)

DEVICE = prepare("auto")


def verdict_on(function: Callable[..., Any], operation: str) -> Verdict:
    binding = binding_of(function, operation, "fastdeploy")
    return search(
        binding, DEVICE, Budget(examples=60, seed=3), checks=checks_for(binding), first=fixture_cases(binding)
    )


def rows_counted_twice(
    seq_lens_encoder: torch.Tensor,
    seq_lens_decoder: torch.Tensor,
    seq_lens_this_time: torch.Tensor,
    position_ids: torch.Tensor,
) -> None:
    """FastDeploy#7727: the offset adds encoder and this_time, prefill positions begin at 0."""
    row = 0
    lens = zip(
        seq_lens_encoder.flatten().tolist(),
        seq_lens_decoder.flatten().tolist(),
        seq_lens_this_time.tolist(),
        strict=True,
    )
    for encoder, context_len, this_time in lens:
        again = this_time if context_len > 0 else 0
        values = [*range(encoder), *range(context_len, context_len + again)]
        for i, value in enumerate(values):
            if row + i < len(position_ids):
                position_ids[row + i] = value
        row += len(values)


def keys_of_new_tokens_only(
    seq_lens_this_time: torch.Tensor,
    seq_lens_decoder: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    batch_id_per_token: torch.Tensor,
) -> None:
    """FastDeploy#7727: cached tokens are missing from cu_seqlens_k."""
    nothing = torch.zeros_like(seq_lens_decoder)
    layout_of_requests(seq_lens_this_time, nothing, cu_seqlens_q, cu_seqlens_k, batch_id_per_token)


def blocks_of_64(
    latent_cache: torch.Tensor,
    block_tables: torch.Tensor,
    compressed_kv: torch.Tensor,
    key_pe: torch.Tensor,
    cu_seqlens_cached_kv: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    kv_lora_rank: int,
    full_compressed_kv: torch.Tensor,
    full_k_pe: torch.Tensor,
) -> None:
    """FastDeploy#7727 review: the block size is looked up on the wrong object and falls back to 64."""
    flat = latent_cache.flatten(0, 2)
    row = 0
    cached, new = cu_seqlens_cached_kv.tolist(), cu_seqlens_q.tolist()
    for b in range(len(cached) - 1):
        for position in range(cached[b + 1] - cached[b]):
            latent = flat[(int(block_tables[b, position // 64]) * 64 + position % 64) % len(flat)]
            full_compressed_kv[row], full_k_pe[row] = latent[:kv_lora_rank], latent[kv_lora_rank:]
            row += 1
        num_new = new[b + 1] - new[b]
        full_compressed_kv[row : row + num_new] = compressed_kv[new[b] : new[b + 1]]
        full_k_pe[row : row + num_new] = key_pe[new[b] : new[b + 1]]
        row += num_new


def key_offsets_as_rows(
    seq_lens_encoder: torch.Tensor,
    seq_lens_this_time: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    ks: torch.Tensor,
    ke: torch.Tensor,
) -> None:
    """FastDeploy#7598: cu_seqlens_k is taken for the row of the queries, and context is forgotten."""
    ks.zero_()
    ke.zero_()
    for b, query_len in enumerate(seq_lens_this_time.tolist()):
        start = int(cu_seqlens_k[b])
        for i in range(query_len):
            if seq_lens_encoder[b, 0] > 0 and start + i < len(ks):
                ks[start + i] = start
                ke[start + i] = start + i + 1


def one_token_means_decode(
    seq_lens_this_time: torch.Tensor,
    seq_lens_decoder: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    batch_id_per_token: torch.Tensor,
    ks: torch.Tensor,
    ke: torch.Tensor,
) -> None:
    """FastDeploy#8065: a prefill chunk of one token is taken for a decode."""
    guess = torch.where(seq_lens_this_time > 1, seq_lens_this_time, 0).unsqueeze(1)
    windows_of_tokens(guess, seq_lens_decoder, cu_seqlens_q, cu_seqlens_k, batch_id_per_token, ks, ke)


def product_in_32_bits(
    positions: torch.Tensor,
    batch_id_per_token: torch.Tensor,
    block_tables: torch.Tensor,
    block_size: int,
    slot_mapping: torch.Tensor,
) -> None:
    """FastDeploy#7367: block id times block size in int32, widened afterwards."""
    live = torch.nonzero(batch_id_per_token >= 0).flatten()
    if len(live):
        request, position = batch_id_per_token[live].long(), positions[live]
        slots = block_tables[request, position.long() // block_size] * block_size + position % block_size
        slot_mapping[live] = slots.long()


def padding_gets_minus_one(
    positions: torch.Tensor,
    batch_id_per_token: torch.Tensor,
    block_tables: torch.Tensor,
    block_size: int,
    slot_mapping: torch.Tensor,
) -> None:
    """Another engine's habit: here padding keeps what it held."""
    slot_mapping.fill_(-1)
    slots_of_positions(positions, batch_id_per_token, block_tables, block_size, slot_mapping)


@pytest.mark.parametrize(
    ("function", "operation", "check"),
    [
        (rows_counted_twice, "position_ids", "agrees"),
        (keys_of_new_tokens_only, "sequence_layout", "agrees"),
        (key_offsets_as_rows, "causal_windows", "agrees"),
        (one_token_means_decode, "causal_windows", "agrees"),
        (product_in_32_bits, "slot_mapping", "survives_large_ids"),
        (padding_gets_minus_one, "slot_mapping", "writes_everything"),
        (blocks_of_64, "prefix_interleave", "agrees"),
    ],
    ids=["7727 positions", "7727 keys", "7598", "8065", "7367", "padding written", "7727 block size"],
)
def test_a_bug_that_shipped_is_found(function: Callable[..., Any], operation: str, check: str) -> None:
    failure = verdict_on(function, operation).failure
    assert failure is not None
    assert failure.finding.check == check
