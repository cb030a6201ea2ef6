"""Functions that keep state between steps, captured in a CUDA graph and replayed on other lengths."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from cumae.gpu_impl import MetadataCache, PersistentBuffers, write_sparse_schedule
from cumae.properties.tests.given.steps import DEVICE, Step, expected_schedule, lists

pytestmark = pytest.mark.skipif(DEVICE == "cpu", reason="device='cuda': no GPU to run on")
FIRST, SECOND = Step([3, 4, 0], [2, 0, 3], 1), Step([1, 0, 7], [0, 4, 1], 1)


@contextmanager
def neither_waiting_nor_allocating() -> Iterator[None]:
    torch.cuda.synchronize()
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.cuda.memory_stats()["allocation.all.allocated"] == before


def change(inputs: dict[str, torch.Tensor], step: Step) -> None:
    """Write the lengths of another step of the same sizes into the captured inputs."""
    for name, tensor in step.tensors().items():
        inputs[name].copy_(tensor)


@pytest.mark.parametrize("num_tokens", [6, 3000])
def test_a_schedule_replays(num_tokens: int) -> None:
    first = Step([3, 0], [num_tokens - 5, 4], 1)
    second = Step([0, 8], [3, num_tokens - 6], 3)
    inputs = first.tensors()
    sizes = (4, num_tokens * 3, num_tokens * 3, num_tokens * 3, num_tokens)
    outputs = [torch.empty(size, dtype=torch.int32, device=DEVICE) for size in sizes]
    arguments: tuple[Any, ...] = (*inputs.values(), 5, 2, 3, *outputs)
    write_sparse_schedule(*arguments)
    with neither_waiting_nor_allocating():
        write_sparse_schedule(*arguments)
    assert lists(outputs) == expected_schedule(first, 5, 2, 3)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        write_sparse_schedule(*arguments)
    change(inputs, second)
    graph.replay()
    assert lists(outputs) == expected_schedule(second, 5, 2, 3)


def test_a_cache_builds_in_a_capture_and_never_hits_behind_a_replay() -> None:
    inputs = FIRST.tensors()
    cache = MetadataCache(8, 4, 2, 3, DEVICE)
    assert cache(*FIRST.host(), **inputs).rebuilt == 1
    with neither_waiting_nor_allocating():
        assert cache(*FIRST.host(), **inputs).rebuilt == 0
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        held = cache(*FIRST.host(), **inputs)
    assert held.rebuilt == 1
    for step in (SECOND, FIRST):
        fresh = cache(*FIRST.host(), **FIRST.tensors())
        assert lists(fresh[:5]) == expected_schedule(FIRST, 4, 2, 3)
        change(inputs, step)
        graph.replay()
        assert lists(held[:5]) == expected_schedule(step, 4, 2, 3)


def test_buffers_are_cleared_after_a_replay_the_host_did_not_see() -> None:
    inputs = FIRST.tensors()
    indices = torch.zeros((6, 2), dtype=torch.int32, device=DEVICE)
    table = torch.tensor([[1], [2], [3]], device=DEVICE)
    buffers = PersistentBuffers(8, 2, DEVICE)
    one = Step([5], [1])
    few: dict[str, Any] = {
        **one.tensors(),
        "topk_indices": indices[:1],
        "block_table": table,
        "block_size": 4,
    }
    buffers(**few)
    with neither_waiting_nor_allocating():
        buffers(**inputs, topk_indices=indices, block_table=table, block_size=4)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        held = buffers(**inputs, topk_indices=indices, block_table=table, block_size=4)
    for step in (FIRST, SECOND):
        change(inputs, step)
        graph.replay()
        kv_lens = step.kv_lens(2)
        assert held.token_to_request.tolist() == [*(b for b, _ in step.tokens()), -1, -1]
        assert held.kv_indptr.tolist()[6:] == [sum(kv_lens)] * 3
        slots = [
            4 * (b + 1) for (b, _), kv_len in zip(step.tokens(), kv_lens, strict=True) for _ in range(kv_len)
        ]
        assert held.kv_indices.tolist()[: len(slots)] == slots
        buffers(**few)
        assert held.token_to_request.tolist() == [0, *[-1] * 7]
        assert held.kv_indices.tolist() == [4, 4, *[-1] * 14]
