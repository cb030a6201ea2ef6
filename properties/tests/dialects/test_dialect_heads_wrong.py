"""Wrong functions with the names of engines, of keys and values of several heads, are found."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

import cumae
from cumae.fixtures.correct import page_rows

Tensor = torch.Tensor

# A wrong writer whose rows meet in a slot is also a race on a GPU.
FOUND_BY = ("agrees", "writes_everything", "ignores_garbage", "is_deterministic")


def without_starts(
    key_cache: Tensor,
    value_cache: Tensor,
    block_table: Tensor,
    cu_seqlens_kv: Tensor,
    token_to_batch: Tensor,
    seq_starts: Tensor,
    total_tokens: int,
    block_size: int,
    kv_cache_layout: str,
    num_kv_heads: int,
    kv_cache_dtype: str,
    k_scale: Tensor,
    v_scale: Tensor,
    key: Tensor,
    value: Tensor,
) -> None:
    """The keys of a window are the first ones."""
    where = (block_table, cu_seqlens_kv, token_to_batch, torch.zeros_like(seq_starts), total_tokens)
    form = (kv_cache_layout, kv_cache_dtype, k_scale, v_scale)
    page_rows.gather_cache(key_cache, value_cache, *where, block_size, num_kv_heads, *form, key, value)


def tokens_of_the_first_page(
    k_buffer: Tensor,
    v_buffer: Tensor,
    page_table: Tensor,
    cache_seqlens_int32: Tensor,
    page_size: int,
    key_out: Tensor,
    value_out: Tensor,
) -> None:
    """Pages follow the first one of a request without gaps."""
    if page_table.numel():
        columns = torch.arange(page_table.shape[1], device=page_table.device)
        page_table = (page_table[:, :1] + columns) % (len(k_buffer) // page_size)
    where = (page_table, cache_seqlens_int32, page_size)
    page_rows.keys_of_sequences(k_buffer, v_buffer, *where, key_out, value_out)


def padding_in_the_second_slot(
    cache_k: Tensor, cache_v: Tensor, loc: Tensor, k_buffer: Tensor, v_buffer: Tensor
) -> None:
    """Rows of padding go to slot 1, which belongs to nobody, but is not the dump slot."""
    slots = torch.where(loc == 0, 1, loc) if len(k_buffer) > 1 else loc
    page_rows.set_kv_buffer(cache_k, cache_v, slots, k_buffer, v_buffer)


def pages_of_the_first_request(
    append_key: Tensor,
    append_value: Tensor,
    batch_indices: Tensor,
    positions: Tensor,
    paged_kv_cache: Tensor,
    kv_indices: Tensor,
    kv_indptr: Tensor,
    page_size: int,
    kv_layout: str,
) -> None:
    """The list of pages is read from its start."""
    new = (append_key, append_value, batch_indices, positions, paged_kv_cache)
    page_rows.append_paged_kv_cache(*new, kv_indices, torch.zeros_like(kv_indptr), page_size, kv_layout)


@pytest.mark.parametrize(
    ("wrong", "operation", "dialect"),
    [
        (without_starts, "page_read", "vllm"),
        (tokens_of_the_first_page, "page_read", "sglang"),
        (padding_in_the_second_slot, "page_write", "sglang"),
        (pages_of_the_first_request, "page_write", "flashinfer"),
    ],
)
def test_a_wrong_one_is_found(wrong: Callable[..., None], operation: Any, dialect: Any) -> None:
    domain = cumae.Domain(captured=False)
    verdict = cumae.check(wrong, operation, dialect=dialect, domain=domain, examples=100, save_to=None)
    assert verdict.failure is not None
    assert verdict.failure.finding.check in FOUND_BY
