"""Device times of the shipped kernels in a CUDA graph, and of a copy of the same bytes. GPU only."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch

from cumae.oracle import Batch, Case, Options, Request
from cumae.oracle.model.rules import require
from cumae.properties.bench.clock import graph_time, host_time, queued_time
from cumae.properties.bench.step_times import SHAPES, drawn_step
from cumae.properties.cases.seeded import large_case
from cumae.properties.checks import Trial
from cumae.properties.checks.agrees import agrees
from cumae.properties.dialects import CUMAE
from cumae.properties.operations import OPERATIONS
from cumae.properties.operations.binding import Binding, bind
from cumae.properties.operations.targets import load_function
from cumae.properties.running.bench import Bench
from cumae.properties.running.device import Device

Progress = Callable[[str], None]
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


class WrongResult(Exception):
    """Raised for a function that is to be timed and does not agree."""


def timings_of(target: Binding, device: Device, progress: Progress = lambda state: None) -> list[Timing]:
    """Return the timings of a function beside those of the shipped kernels of its operation.

    Raises ``ValueError`` without a GPU, ``WrongResult`` for a function that does not agree on a step.
    """
    _require_gpu(device)
    shipped = [bind(load_function(kernel), target.operation, CUMAE) for kernel in target.operation.kernels]
    found = []
    for size, case in _steps().items():
        case = replace(case, options=SELECTED.get(target.operation.name, case.options))
        if why := target.why_not(case):
            progress(f"{size} left out: {why}")
            continue
        for binding in (target, *shipped):
            progress(f"{binding.name}, {size}")
            wrong = agrees(Trial(binding, case, device))
            if wrong is not None:
                raise WrongResult(f"{binding.name}, {size}: {wrong.message}")
            found.append(_timing(binding, case, size))
    return found


def timings(device: Device, progress: Progress = lambda state: None) -> list[Timing]:
    """Return the timings of every shipped kernel. Raises ``ValueError`` without a GPU."""
    _require_gpu(device)
    found = _whole_steps(device, progress)
    for size, case in _steps().items():
        for operation in OPERATIONS.values():
            if operation.name not in ("prefix_interleave", "cache_write", "grouped_topk"):
                for kernel in operation.kernels:
                    progress(f"{kernel.rpartition(':')[2]}, {size}")
                    found.append(_step_timing(kernel, operation.name, case, size))
    progress("caches, routers and rows")
    return [*found, *_cache_timings(), *_router_timings(), *_write_timings(), *_interleave_timings()]


def _require_gpu(device: Device) -> None:
    require(device == "cuda", "device", device, "be cuda: times in the interpreter are not device times")


def _whole_steps(device: Device, progress: Progress) -> list[Timing]:
    """Time the ways to write a step's metadata, each compared with the first."""
    found = []
    for size, sizes in SHAPES.items():
        step = drawn_step(device, sizes)
        expected: dict[str, torch.Tensor] = {}
        for name, call in step.ways():
            progress(f"{name}, {size}")
            for output in step.outputs.values():
                output.fill_(-7)
            call()
            expected = expected or {n: output.clone() for n, output in step.outputs.items()}
            if wrong := step.difference(expected):
                raise WrongResult(f"{name}, {size}: {wrong}")
            median, spread = graph_time(call)
            found.append(Timing(name, size, median, spread, step.bytes / median / 1000))
        if step.num_tokens > 1_000_000:
            found += _copies(size, step.bytes)
    return found


def _copies(size: str, num_bytes: int) -> list[Timing]:
    """Time a copy that moves so many bytes, read and written; a graph may copy more slowly than a launch."""
    source = torch.zeros(num_bytes // 2, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    ways = {"copy, in a graph": graph_time, "copy, launched": queued_time}
    times = {name: clock(lambda: target.copy_(source)) for name, clock in ways.items()}
    return [Timing(name, size, *each, num_bytes / each[0] / 1000) for name, each in times.items()]


def _steps() -> dict[str, Case]:
    mixed = [
        Request(1000 + 7 * b, 1 + 31 * b, tuple(range(256 * b, 256 * (b + 1))), "prefill") for b in range(64)
    ]
    decodes = [Request(4000 + b, 1, tuple(range(267 * b, 267 * (b + 1))), "decode") for b in range(256)]
    prefill = Request(16, 131_072, tuple(range(8193)), "prefill")
    return {
        "64 requests, 62,560 tokens": Case(Batch(tuple(mixed), 16)),
        "256 decodes": Case(Batch(tuple(decodes), 16)),
        "1 prefill of 131,072 tokens": Case(Batch((prefill,), 16)),
        "65,536 requests, 1,000,000 tokens": large_case(0, features=()),
    }


def _step_timing(kernel: str, operation: str, case: Case, size: str) -> Timing:
    binding = bind(load_function(kernel), OPERATIONS[operation], CUMAE)
    return _timing(binding, replace(case, options=SELECTED.get(operation, case.options)), size)


def _timing(binding: Binding, case: Case, size: str) -> Timing:
    operation = binding.operation.name
    call = Bench(binding, case, "cuda").call(poison=0)
    arguments, topk = call.arguments, case.options.selection.topk
    median, spread = graph_time(lambda: call.function(**arguments))
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
        found.append(Timing(name, f"{count} decodes, topk 2048, device", *queued_time(run)))
        found.append(Timing(name, f"{count} decodes, topk 2048, host", *host_time(run)))
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
                median, spread = graph_time(partial(load_function(kernel), **arguments))
                size = f"{num_tokens:,} tokens, 256 experts, logits {str(dtype).removeprefix('torch.')}"
                found.append(Timing(kernel.partition(":")[2], size, median, spread))
    return found


def _write_timings() -> list[Timing]:
    """Time new rows of 512 + 64 bf16, copied into a cache of such rows and quantised to fp8."""
    found, block_size = [], 64
    for count in (1, 128, 65_536):
        new_latents = torch.randn((count, 576), device="cuda", dtype=torch.bfloat16)
        slots = torch.randperm(count, device="cuda")
        for kernel in OPERATIONS["cache_write"].kernels:
            for dtype, width in ((torch.bfloat16, 576), (torch.uint8, 656)):
                blocks = -(-count // block_size)
                cache = torch.zeros((blocks, block_size, width), device="cuda", dtype=dtype)
                median, spread = graph_time(partial(load_function(kernel), new_latents, slots, cache, False))
                moved = count * (2 * 576 + width * cache.element_size() + 8)
                size = f"{count:,} rows to {str(dtype).removeprefix('torch.')}"
                found.append(Timing(kernel.partition(":")[2], size, median, spread, moved / median / 1000))
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
        "write_prefix_interleave": graph_time(lambda: write(**arguments)),
        "copy, in a graph": graph_time(lambda: keys.copy_(source)),
        "copy, launched": queued_time(lambda: keys.copy_(source)),
    }
    return [Timing(name, size, *times, moved / times[0] / 1000) for name, times in timed.items()]
