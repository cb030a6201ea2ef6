"""Launchers and classes that keep state refuse bad input before anything is written."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from cumae.gpu_impl import MetadataCache, PersistentBuffers, write_sparse_schedule
from cumae.properties.tests.given.steps import DEVICE, POISON, Step


def schedule_arguments() -> dict[str, Any]:
    sizes = {"work_indptr": 4, "work_token": 12, "work_start": 12, "work_stop": 12, "num_splits": 6}
    outputs = {
        name: torch.full((size,), POISON, dtype=torch.int32, device=DEVICE) for name, size in sizes.items()
    }
    return {
        **Step([3, 4, 0], [2, 0, 3], 1).tensors(),
        "topk": 4,
        "split_size": 2,
        "num_workers": 3,
        **outputs,
    }


def cache_arguments() -> dict[str, Any]:
    step = Step([3, 4, 0], [2, 0, 3], 1)
    context_lens_cpu, query_lens_cpu = step.host()
    return {"context_lens_cpu": context_lens_cpu, "query_lens_cpu": query_lens_cpu, **step.tensors()}


def buffer_arguments() -> dict[str, Any]:
    indices = torch.zeros((6, 4), dtype=torch.int32, device=DEVICE)
    table = torch.zeros((3, 2), dtype=torch.int32, device=DEVICE)
    step = Step([3, 4, 0], [2, 0, 3], 1)
    return {**step.tensors(), "topk_indices": indices, "block_table": table, "block_size": 4}


def ones(*shape: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    return torch.ones(shape, dtype=dtype, device=DEVICE)


BAD: list[tuple[Callable[[], dict[str, Any]], str, Any, str]] = [
    (schedule_arguments, "topk", 0, "topk = 0, must be >= 1"),
    (schedule_arguments, "topk", 5, r"work_token.shape = \(12,\), must be \(18,\)"),
    (schedule_arguments, "topk", True, "topk = True, must be an int"),
    (schedule_arguments, "topk", 2**31 - 1, r"num_tokens \* ceil.* = 6442450944, must be <="),
    (schedule_arguments, "split_size", 0, "split_size = 0, must be >= 1"),
    (schedule_arguments, "num_workers", 0, "num_workers = 0, must be >= 1"),
    (schedule_arguments, "work_indptr", ones(3), "work_indptr.shape = .*, must be"),
    (schedule_arguments, "work_stop", ones(12, dtype=torch.int64), "work_stop.dtype = .*, must be"),
    (schedule_arguments, "work_start", ones(24)[::2], "work_start.stride.*, must be contiguous"),
    (schedule_arguments, "num_splits", ones(7), "num_splits.shape = .*, must be"),
    (schedule_arguments, "cu_seqlens_q", ones(3), "cu_seqlens_q.shape = .*, must be"),
    (schedule_arguments, "context_lens", [3, 4, 0], "context_lens = .*, must be a tensor"),
    (schedule_arguments, "token_to_request", ones(6, dtype=torch.int16), "token_to_request.dtype.*, must be"),
    (cache_arguments, "context_lens_cpu", torch.ones(2), "context_lens_cpu.dtype = .*, must be"),
    (cache_arguments, "context_lens_cpu", torch.tensor([3, 4]), "context_lens_cpu.shape = .*, must be"),
    (cache_arguments, "query_lens_cpu", torch.tensor([1]), "query_lens_cpu.shape = .*, must be"),
    (cache_arguments, "query_lens_cpu", [2, 0, 3], "query_lens_cpu = .*, must be a tensor"),
    (cache_arguments, "cu_seqlens_q", ones(3), "cu_seqlens_q.shape = .*, must be"),
    (cache_arguments, "token_to_request", ones(7), r"token_to_request.numel\(\) = 7, must be <= 6"),
    (buffer_arguments, "topk_indices", ones(6, 3), "topk_indices.shape = .*, must be"),
    (buffer_arguments, "topk_indices", ones(6, 4, dtype=torch.int64), "topk_indices.dtype = .*, must be"),
    (buffer_arguments, "topk_indices", ones(6, 8)[:, ::2], "topk_indices.stride.*, must be contiguous"),
    (buffer_arguments, "block_table", ones(3), "block_table.shape = .*, must be"),
    (buffer_arguments, "block_size", 0, "block_size = 0, must be >= 1"),
    (buffer_arguments, "token_to_request", ones(7), r"token_to_request.numel\(\) = 7, must be <= 6"),
]


@pytest.mark.parametrize(
    ("make", "field", "value", "says"), BAD, ids=[f"{m.__name__}-{f}-{i}" for i, (m, f, *_) in enumerate(BAD)]
)
def test_bad_input_is_refused_before_anything_is_written(
    make: Callable[[], dict[str, Any]], field: str, value: Any, says: str
) -> None:
    cache, buffers = MetadataCache(6, 4, 2, 3, DEVICE), PersistentBuffers(6, 4, DEVICE)
    launchers: dict[Callable[..., Any], Callable[..., Any]] = {
        schedule_arguments: write_sparse_schedule,
        cache_arguments: cache,
        buffer_arguments: buffers,
    }
    launch = launchers[make]
    kept = launch(**make())
    held = [] if kept is None else list(kept[:5])
    arguments = make() | {field: value}
    held += [value for value in arguments.values() if isinstance(value, torch.Tensor)]
    before = [tensor.clone() for tensor in held]
    with pytest.raises(ValueError, match=rf"^{says}"):
        launch(**arguments)
    assert all(torch.equal(a, b) for a, b in zip(held, before, strict=True))


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ((-1, 4, 2, 3), "max_num_tokens = -1, must be >= 0"),
        ((6, 0, 2, 3), "topk = 0, must be >= 1"),
        ((6, 4, 0, 3), "split_size = 0, must be >= 1"),
        ((6, 4, 2, 0), "num_workers = 0, must be >= 1"),
        ((2**20, 2048, 1, 3), r"num_tokens \* ceil.* = 2147483648, must be <="),
    ],
)
def test_a_cache_refuses_bad_numbers(values: tuple[int, int, int, int], says: str) -> None:
    with pytest.raises(ValueError, match=f"^{says}"):
        MetadataCache(*values, DEVICE)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ((-1, 4), "max_num_tokens = -1, must be >= 0"),
        ((6, 0), "topk = 0, must be >= 1"),
        ((2**20, 2048), r"max_num_tokens \* topk = 2147483648, must be <="),
    ],
)
def test_buffers_refuse_bad_numbers(values: tuple[int, int], says: str) -> None:
    with pytest.raises(ValueError, match=f"^{says}"):
        PersistentBuffers(*values, DEVICE)
