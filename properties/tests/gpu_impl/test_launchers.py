"""Launchers refuse bad tensors and numbers before anything is written, naming field, value and rule."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

from cumae import gpu_impl
from cumae.properties.running.device import prepare

DEVICE = prepare("auto")


def tensor(values: list[Any], dtype: torch.dtype = torch.int32) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype, device=DEVICE)


def filled(*shape: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    return torch.full(shape, 77, dtype=dtype, device=DEVICE)


def sequence_layout() -> dict[str, Any]:
    return {
        "context_lens": tensor([3, 0]),
        "query_lens": tensor([1, 2]),
        "is_prefill": tensor([False, True], torch.bool),
        "compress_ratio": 1,
        "key_scope": "all",
        "token_padding": -1,
        "dummy_request": False,
        "cu_seqlens_q": filled(3),
        "cu_seqlens_k": filled(3),
        "token_to_request": filled(4),
        "max_seqlen_q": filled(1),
        "max_seqlen_k": filled(1),
    }


def position_ids() -> dict[str, Any]:
    return {
        "token_to_request": tensor([0, 1, 1, -1]),
        "cu_seqlens_q": tensor([0, 1, 3]),
        "context_lens": tensor([3, 0]),
        "position_ids": filled(4, dtype=torch.int64),
    }


def slot_mapping() -> dict[str, Any]:
    return {
        "token_to_request": tensor([0, 1, 1, -1]),
        "position_ids": tensor([3, 0, 1, 0], torch.int64),
        "block_table": tensor([[5], [6]]),
        "row_index": tensor([0, 1]),
        "block_size": 4,
        "kernel_block_size": 4,
        "world": 1,
        "rank": 0,
        "interleave": 1,
        "slot_mapping": filled(5, dtype=torch.int64),
    }


def causal_windows() -> dict[str, Any]:
    return {
        "token_to_request": tensor([0, 1, 1, -1]),
        "cu_seqlens_q": tensor([0, 1, 3]),
        "cu_seqlens_k": tensor([0, 4, 6]),
        "context_lens": tensor([3, 0]),
        "is_prefill": tensor([True, True], torch.bool),
        "compress_ratio": 1,
        "window": 0,
        "world": 1,
        "rank": 0,
        "interleave": 1,
        "ks": filled(4),
        "ke": filled(4),
    }


def prefix_interleave() -> dict[str, Any]:
    return {
        "cache": filled(7, 4, 6, dtype=torch.float32),
        "new_rows": filled(3, 6, dtype=torch.float32),
        "block_table": tensor([[5], [6]]),
        "cu_seqlens_q": tensor([0, 1, 3]),
        "cu_seqlens_k": tensor([0, 4, 6]),
        "context_lens": tensor([3, 0]),
        "max_context_len": 3,
        "keys": filled(6, 6, dtype=torch.float32),
    }


def topk_to_slots() -> dict[str, Any]:
    return {
        "token_to_request": tensor([0, 1, -1]),
        "selected_positions": tensor([[3, 0], [1, -1], [9, 9]]),
        "block_table": tensor([[5], [6]]),
        "block_size": 4,
        "world": 1,
        "rank": 0,
        "interleave": 1,
        "selected_slots": filled(6),
        "workspace_ids": None,
        "workspace_starts": None,
    }


def chunked_context() -> dict[str, Any]:
    return {
        "context_lens": tensor([5, 0, 3]),
        "is_prefill": tensor([True, True, False], torch.bool),
        "workspace_tokens": 8,
        "block_size": 4,
        "num_with_context": 2,
        "max_context_len": 5,
        "key_scope": "all",
        "chunk_starts": filled(6),
        "chunk_lens": filled(6),
        "chunk_cu_seqlens": filled(8),
        "chunk_totals": filled(2),
        "chunk_maxima": filled(2),
    }


GOOD: list[Callable[[], dict[str, Any]]] = [
    sequence_layout,
    position_ids,
    slot_mapping,
    causal_windows,
    prefix_interleave,
    topk_to_slots,
    chunked_context,
]
BAD: list[tuple[Callable[[], dict[str, Any]], str, Any, str]] = [
    (sequence_layout, "query_lens", tensor([1.0, 2.0], torch.float32), "query_lens"),
    (sequence_layout, "query_lens", tensor([1, 2, 3]), "query_lens"),
    (sequence_layout, "is_prefill", tensor([0, 1]), "is_prefill"),
    (sequence_layout, "cu_seqlens_q", filled(2), "cu_seqlens_q"),
    (sequence_layout, "cu_seqlens_q", filled(3, dtype=torch.int64), "cu_seqlens_q"),
    (sequence_layout, "compress_ratio", 0, "compress_ratio = 0"),
    (sequence_layout, "key_scope", "decode", "key_scope = 'decode'"),
    (sequence_layout, "token_padding", 7, "token_padding = 7"),
    (position_ids, "token_to_request", tensor([0, 1]), "position_ids"),
    (position_ids, "position_ids", filled(4, dtype=torch.float32), "position_ids"),
    (position_ids, "cu_seqlens_q", tensor([0, 3]), "cu_seqlens_q"),
    (position_ids, "context_lens", [3, 0], "context_lens"),
    (slot_mapping, "block_table", tensor([5, 6]), "block_table"),
    (slot_mapping, "slot_mapping", filled(3, dtype=torch.int64), "slot_mapping"),
    (slot_mapping, "slot_mapping", filled(5), "slot_mapping"),
    (slot_mapping, "kernel_block_size", 3, "kernel_block_size = 3"),
    (slot_mapping, "block_size", 0, "block_size = 0"),
    (slot_mapping, "rank", 1, "rank = 1"),
    (slot_mapping, "world", True, "world = True"),
    (causal_windows, "window", -1, "window = -1"),
    (causal_windows, "ks", filled(3), "ks"),
    (causal_windows, "ke", filled(4, dtype=torch.int64), "ke"),
    (prefix_interleave, "keys", filled(6, 5, dtype=torch.float32), "keys"),
    (prefix_interleave, "new_rows", filled(3, 6, dtype=torch.float16), "new_rows"),
    (prefix_interleave, "block_table", None, "block_table"),
    (prefix_interleave, "cache", filled(7, 4, 12, dtype=torch.float32)[:, :, ::2], "cache"),
    (prefix_interleave, "cache", filled(7, 4, 2, dtype=torch.float32)[:, :, ::2], "cache.stride() = (8,"),
    (prefix_interleave, "max_context_len", -1, "max_context_len = -1"),
    (prefix_interleave, "max_context_len", None, "max_context_len = None"),
    (topk_to_slots, "selected_positions", tensor([[3, 0], [1, -1]]), "selected_positions.shape = (2, 2)"),
    (topk_to_slots, "selected_positions", filled(3, 4)[:, ::2], "selected_positions.stride() = (4, 2)"),
    (topk_to_slots, "selected_positions", filled(3, 2, dtype=torch.int16), "selected_positions.dtype"),
    (topk_to_slots, "selected_slots", filled(3, 2), "selected_slots.shape = (3, 2)"),
    (topk_to_slots, "selected_slots", filled(6, dtype=torch.int64), "selected_slots.dtype = torch.int64"),
    (topk_to_slots, "block_table", tensor([5, 6]), "block_table.shape = (2,)"),
    (topk_to_slots, "block_size", 0, "block_size = 0"),
    (topk_to_slots, "rank", 1, "rank = 1"),
    (chunked_context, "workspace_tokens", 7, "workspace_tokens = 7"),
    (chunked_context, "workspace_tokens", -1, "workspace_tokens = -1"),
    (chunked_context, "num_with_context", 4, "num_with_context = 4"),
    (chunked_context, "max_context_len", True, "max_context_len = True"),
    (chunked_context, "max_context_len", 9, "chunk_starts.shape = (6,)"),
    (chunked_context, "key_scope", "decode", "key_scope = 'decode'"),
    (chunked_context, "is_prefill", tensor([1, 1, 0]), "is_prefill.dtype = torch.int32"),
    (chunked_context, "chunk_lens", filled(5), "chunk_lens.shape = (5,)"),
    (chunked_context, "chunk_cu_seqlens", filled(6), "chunk_cu_seqlens.shape = (6,)"),
    (chunked_context, "chunk_totals", filled(2, dtype=torch.int64), "chunk_totals.dtype = torch.int64"),
    (chunked_context, "chunk_maxima", filled(4)[::2], "chunk_maxima.stride() = (2,)"),
]


def launcher(make: Callable[[], dict[str, Any]]) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(gpu_impl, f"write_{make.__name__}")
    return found


@pytest.mark.parametrize("make", GOOD)
def test_the_untouched_arguments_are_accepted(make: Callable[[], dict[str, Any]]) -> None:
    launcher(make)(**make())


@pytest.mark.parametrize(
    ("make", "field", "value", "says"),
    BAD,
    ids=[f"{make.__name__}-{field}-{i}" for i, (make, field, _, _) in enumerate(BAD)],
)
def test_bad_input_is_refused_before_anything_is_written(
    make: Callable[[], dict[str, Any]], field: str, value: Any, says: str
) -> None:
    arguments = make() | {field: value}
    before = {n: v.clone() for n, v in arguments.items() if isinstance(v, torch.Tensor)}
    with pytest.raises(ValueError, match=rf"^{re.escape(says)}.*, must "):
        launcher(make)(**arguments)
    for name, held in before.items():
        assert torch.equal(arguments[name], held)


def test_a_capacity_too_small_is_refused_where_lengths_are_known() -> None:
    with pytest.raises(ValueError, match=r"capacity = 6, must be >= sum\(host_seq_lens\) = 7"):
        gpu_impl.write_prefix_interleave(**prefix_interleave(), host_seq_lens=[4, 3])


def test_without_host_lengths_rows_beyond_the_capacity_are_dropped() -> None:
    arguments = prefix_interleave()
    arguments["keys"] = filled(4, 6, dtype=torch.float32) * 0
    gpu_impl.write_prefix_interleave(**arguments)
    assert bool((arguments["keys"] == 77).all())
