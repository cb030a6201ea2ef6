"""Device times of the shipped kernels in a CUDA graph, and of a copy of the same bytes. GPU only."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from triton.testing import do_bench_cudagraph

from cumae.oracle import Batch, Case, Options, Request
from cumae.oracle.model.rules import require
from cumae.properties.cases.seeded import large_case
from cumae.properties.dialects import CUMAE
from cumae.properties.operations import OPERATIONS
from cumae.properties.operations.binding import bind
from cumae.properties.operations.targets import load_function
from cumae.properties.running.bench import Bench
from cumae.properties.running.device import Device

LAUNCHES = 20
_SCHEDULED = Options.of(topk=2048, split_size=64, num_workers=132)
SELECTED = {
    "sparse_schedule": _SCHEDULED,
    "metadata_cache": _SCHEDULED,
    "persistent_buffers": Options.of(topk=16),
    "topk_to_slots": Options.of(topk=16),
    "compact_topk_slots": Options.of(topk=16),
}
"""Options for timing operations over selected keys."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Median device time of one launch in microseconds, ``spread``: from the 10th to the 90th percentile."""

    kernel: str
    size: str
    microseconds: float
    spread: float
    gigabytes_per_second: float | None = None


def timings(device: Device, progress: Callable[[str], None] = lambda state: None) -> list[Timing]:
    """Return the timings of every shipped kernel. Raises ``ValueError`` without a GPU."""
    require(device == "cuda", "device", device, "be cuda: times in the interpreter are not device times")
    found = []
    for size, case in _steps().items():
        for operation in OPERATIONS.values():
            if operation.name not in ("prefix_interleave", "cache_write", "grouped_topk"):
                for kernel in operation.kernels:
                    progress(f"{kernel.rpartition(':')[2]}, {size}")
                    found.append(_step_timing(kernel, operation.name, case, size))
    progress("caches, routers and rows")
    return [*found, *_cache_timings(), *_router_timings(), *_write_timings(), *_interleave_timings()]


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
    case = replace(case, options=SELECTED.get(operation, case.options))
    call = Bench(binding, case, "cuda").call(poison=0)
    arguments, topk = call.arguments, case.options.selection.topk
    median, spread = _graph_time(lambda: call.function(**arguments))
    shown = f"{size}, topk {topk}" if operation in SELECTED else size
    return Timing(binding.function.__name__, shown, median, spread)


def _cache_timings() -> list[Timing]:
    """Time a decode step of 256 requests with a cache hit, and one that rebuilds the schedule."""
    count = 256
    case = Case(
        Batch(
            tuple(Request(4096, 1, tuple(range(257 * b, 257 * b + 257)), "decode") for b in range(count)), 16
        )
    )
    case = replace(case, options=SELECTED["metadata_cache"])
    binding = bind(load_function("cumae.gpu_impl:MetadataCache"), OPERATIONS["metadata_cache"], CUMAE)
    call = Bench(binding, case, "cuda").call(poison=0)
    kept, missed = call.arguments, {**call.arguments, "context_lens_cpu": None}
    found = []
    for name, arguments in (("MetadataCache, kept", kept), ("MetadataCache, rebuilt", missed)):
        call.function(**arguments)
        run = partial(call.function, **arguments)
        found.append(Timing(name, f"{count} decodes, topk 2048, device", *_queued_time(run)))
        found.append(Timing(name, f"{count} decodes, topk 2048, host", *_host_time(run)))
    return found


def _router_timings() -> list[Timing]:
    """Time DeepSeek-V3's router, with logits of both dtypes, on a decode step and on a large prefill."""
    found = []
    for kernel in OPERATIONS["grouped_topk"].kernels:
        for num_tokens in (256, 65_536):
            for dtype in (torch.bfloat16, torch.float32):
                logits = torch.randn((num_tokens, 256), device="cuda", dtype=torch.float32).to(dtype)
                arguments = {
                    "logits": logits,
                    "bias": torch.rand(256, device="cuda") / 5 - 0.1,
                    "num_groups": 8,
                    "topk_group": 4,
                    "top_k": 8,
                    "scaling_factor": 2.5,
                    "renormalize": True,
                    "expert_ids": torch.empty((num_tokens, 8), device="cuda", dtype=torch.int32),
                    "expert_weights": torch.empty((num_tokens, 8), device="cuda", dtype=torch.float32),
                }
                median, spread = _graph_time(partial(load_function(kernel), **arguments))
                size = f"{num_tokens:,} tokens, 256 experts, logits {str(dtype).removeprefix('torch.')}"
                found.append(Timing(kernel.partition(":")[2], size, median, spread))
    return found


def _write_timings() -> list[Timing]:
    """Time 65,536 new rows of 512 + 64 bf16, copied into a cache of such rows and quantised to fp8."""
    count, block_size = 65_536, 64
    new_latents = torch.randn((count, 576), device="cuda", dtype=torch.bfloat16)
    slots = torch.randperm(count, device="cuda")
    found = []
    for kernel in OPERATIONS["cache_write"].kernels:
        for dtype, width in ((torch.bfloat16, 576), (torch.uint8, 656)):
            cache = torch.zeros((count // block_size, block_size, width), device="cuda", dtype=dtype)
            run = partial(load_function(kernel), new_latents, slots, cache, False)
            median, spread = _graph_time(run)
            moved = count * (2 * 576 + width * cache.element_size() + 8)
            size = f"{count:,} rows to {str(dtype).removeprefix('torch.')}"
            rate = moved / median / 1000
            found.append(Timing(kernel.partition(":")[2], size, median, spread, rate))
    return found


def _interleave_timings() -> list[Timing]:
    """Time 1,048,576 key rows of 576 bf16, nine in ten cached, and a copy of the same bytes.

    Both ways to copy are timed, because a graph may copy more slowly than a launch.
    """
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
    timed = {
        "write_prefix_interleave": _graph_time(lambda: write(**arguments)),
        "copy, in a graph": _graph_time(lambda: keys.copy_(source)),
        "copy, launched": _queued_time(lambda: keys.copy_(source)),
    }
    return [Timing(name, size, *times, moved / times[0] / 1000) for name, times in timed.items()]


def _graph_time(run: Callable[[], Any]) -> tuple[float, float]:
    """Return median and spread in microseconds of one call, from graphs of many."""
    torch.cuda.synchronize()  # the timed calls run on another stream
    low, median, high = do_bench_cudagraph(run, quantiles=(0.1, 0.5, 0.9))
    return median * 1000, (high - low) * 1000


def _queued_time(run: Callable[[], Any]) -> tuple[float, float]:
    """Return median and spread in microseconds of one call on a busy device with queued launches."""
    times = []
    for _ in range(20):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        torch.cuda._sleep(100_000_000)  # type: ignore[no-untyped-call]
        start.record()
        for _ in range(LAUNCHES):
            run()
        stop.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(stop) * 1000 / LAUNCHES)
    return _median_and_spread(times)


def _host_time(run: Callable[[], Any]) -> tuple[float, float]:
    """Return median and spread in microseconds of host time of one call."""
    times = []
    for _ in range(60):
        torch.cuda.synchronize()
        started = time.perf_counter()
        run()
        times.append((time.perf_counter() - started) * 1e6)
    return _median_and_spread(times)


def _median_and_spread(times: list[float]) -> tuple[float, float]:
    times.sort()
    return times[len(times) // 2], times[len(times) * 9 // 10] - times[len(times) // 10]
