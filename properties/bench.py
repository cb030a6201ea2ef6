"""Device time of the shipped kernels in a CUDA graph, and of a copy of the same bytes. GPU only."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from cumae.oracle import Batch, Case, Request
from cumae.oracle.rules import require
from cumae.properties.batches.seeded import large_case
from cumae.properties.dialects import CUMAE
from cumae.properties.operations import OPERATIONS
from cumae.properties.running.binding import bind
from cumae.properties.running.device import Device
from cumae.properties.running.observe import Bench, Call
from cumae.properties.targets import load_function

LAUNCHES = 20


@dataclass(frozen=True, slots=True)
class Timing:
    """Median device time of one launch in microseconds, ``spread``: from the 10th to the 90th percentile."""

    kernel: str
    size: str
    microseconds: float
    spread: float
    gigabytes_per_second: float | None = None


def timings(device: Device) -> list[Timing]:
    """Return the figures of every shipped kernel. Raises ``ValueError`` without a GPU."""
    require(device == "cuda", "device", device, "be cuda: times from the interpreter say nothing")
    found = []
    for size, case in _steps().items():
        for operation in OPERATIONS.values():
            if operation.name != "prefix_interleave":
                for kernel in operation.kernels:
                    found.append(_step_timing(kernel, operation.name, case, size))
    return found + _interleave_timings()


def _steps() -> dict[str, Case]:
    mixed = [
        Request(1000 + 7 * b, 1 + 31 * b, tuple(range(256 * b, 256 * (b + 1))), "prefill") for b in range(64)
    ]
    return {
        "64 requests, 62,560 tokens": Case(Batch(tuple(mixed), 16)),
        "65,536 requests, 1,000,000 tokens": large_case(0, features=()),
    }


def _step_timing(kernel: str, operation: str, case: Case, size: str) -> Timing:
    binding = bind(load_function(kernel), OPERATIONS[operation], CUMAE)
    arguments = Call(Bench(binding, case, "cuda"), poison=0).arguments
    median, spread = _graph_time(lambda: binding.function(**arguments))
    return Timing(binding.function.__name__, size, median, spread)


def _interleave_timings() -> list[Timing]:
    """Time 1,048,576 key rows of 576 bf16, nine in ten cached, and a copy of the same bytes."""
    requests, length, cached, block_size, width = 64, 16_384, 14_720, 64, 576
    blocks = requests * length // block_size
    table = torch.randperm(blocks, device="cuda", dtype=torch.int32).view(requests, -1)
    cache = torch.randint(-9, 9, (blocks, block_size, width), device="cuda", dtype=torch.int16)
    new_rows = torch.randint(-9, 9, (requests * (length - cached), width), device="cuda", dtype=torch.int16)
    steps = torch.arange(requests + 1, device="cuda", dtype=torch.int32)
    keys = torch.empty((requests * length, width), device="cuda", dtype=torch.bfloat16)
    write = load_function("cumae.gpu_impl:write_prefix_interleave")
    arguments = {
        "cache": cache.view(torch.bfloat16),
        "new_rows": new_rows.view(torch.bfloat16),
        "block_table": table,
        "cu_seqlens_q": steps * (length - cached),
        "cu_seqlens_k": steps * length,
        "context_lens": torch.full((requests,), cached, device="cuda", dtype=torch.int32),
        "max_context_len": cached,
        "keys": keys,
    }
    source = torch.empty_like(keys)
    moved = 2 * keys.numel() * keys.element_size()
    size = "1,048,576 rows of 576 bf16"
    found = []
    runs = {"write_prefix_interleave": lambda: write(**arguments), "copy": lambda: keys.copy_(source)}
    for name, run in runs.items():
        median, spread = _launch_time(run, 1) if name == "copy" else _graph_time(run)
        found.append(Timing(name, size, median, spread, moved / median / 1000))
    return found


def _graph_time(run: Callable[[], Any]) -> tuple[float, float]:
    """Return median and spread in microseconds of one call, from graphs of many."""
    run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(LAUNCHES):
            run()
    return _launch_time(graph.replay, LAUNCHES)


def _launch_time(run: Callable[[], Any], calls: int) -> tuple[float, float]:
    """Return median and spread in microseconds of one of the ``calls`` that a run makes."""
    times = []
    for _ in range(60):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record()
        run()
        stop.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(stop) * 1000 / calls)
    times.sort()
    return times[len(times) // 2], times[len(times) * 9 // 10] - times[len(times) // 10]
