"""Device times of the shipped kernels in a CUDA graph, and of a copy of the same bytes. GPU only."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import torch

from cumae.oracle import Batch, Case, Options, Request
from cumae.oracle.model.rules import require
from cumae.properties.bench.clock import Timing, WrongResult, graph_time, host_time, queued_time
from cumae.properties.bench.floors import Floor, measured_floor, moved_by
from cumae.properties.bench.router_times import router_timings
from cumae.properties.bench.row_times import page_timings, row_timings
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
_TIMED_ELSEWHERE = ("prefix_interleave", "cache_write", "page_write", "page_read", "grouped_topk")


def timings_of(target: Binding, device: Device, progress: Progress = lambda state: None) -> Iterator[Timing]:
    """Yield the timings of a function beside those of the shipped kernels of its operation.

    Raises ``ValueError`` without a GPU, ``WrongResult`` for a function that does not agree on a step.
    """
    _require_gpu(device)
    shipped = [bind(load_function(kernel), target.operation, CUMAE) for kernel in target.operation.kernels]
    floor = measured_floor()
    for size, case in large_steps().items():
        case = replace(case, options=SELECTED.get(target.operation.name, case.options))
        if why := target.why_not(case):
            progress(f"{size} left out: {why}")
            continue
        for binding in (target, *shipped):
            progress(f"{binding.name}, {size}")
            yield _timing(binding, case, size, floor)


def timings(device: Device, progress: Progress = lambda state: None) -> Iterator[Timing]:
    """Yield the timings of every shipped kernel, each after it agreed on what is timed.

    Raises ``ValueError`` without a GPU, ``WrongResult`` for a kernel that does not agree.
    """
    _require_gpu(device)
    floor = measured_floor()
    yield from _whole_steps(device, floor, progress)
    for size, case in large_steps().items():
        for operation in OPERATIONS.values():
            if operation.name not in _TIMED_ELSEWHERE:
                held = replace(case, options=SELECTED.get(operation.name, case.options))
                for kernel in operation.kernels:
                    progress(f"{kernel.rpartition(':')[2]}, {size}")
                    yield _timing(bind(load_function(kernel), operation, CUMAE), held, size, floor)
    progress("caches, routers, rows and pages")
    yield from _cache_timings()
    yield from router_timings(floor)
    yield from row_timings()
    yield from page_timings()


def _require_gpu(device: Device) -> None:
    require(device == "cuda", "device", device, "be cuda: times in the interpreter are not device times")


def _whole_steps(device: Device, floor: Floor, progress: Progress) -> Iterator[Timing]:
    """Time the ways to write a step's metadata, each compared with the first."""
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
            rate, launched = step.bytes / median / 1000, queued_time(call)[0]
            yield Timing(name, size, median, spread, rate, launched, floor.of(step.bytes))
        if step.num_tokens > 1_000_000:
            yield from _copies(size, step.bytes)


def _copies(size: str, num_bytes: int) -> list[Timing]:
    """Time a copy that moves so many bytes, read and written; a graph may copy more slowly than a launch."""
    source = torch.zeros(num_bytes // 2, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    ways = {"copy, in a graph": graph_time, "copy, launched": queued_time}
    times = {name: clock(lambda: target.copy_(source)) for name, clock in ways.items()}
    return [Timing(name, size, *each, num_bytes / each[0] / 1000) for name, each in times.items()]


def large_steps() -> dict[str, Case]:
    """Return steps of production sizes by what they are in words."""
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


def _timing(binding: Binding, case: Case, size: str, floor: Floor) -> Timing:
    """Return the time of a function on a case, after it agreed there."""
    operation = binding.operation.name
    wrong = agrees(Trial(binding, case, "cuda"))
    if wrong is not None:
        raise WrongResult(f"{binding.name}, {size}: {wrong.message}")
    call = Bench(binding, case, "cuda").call(poison=0)
    arguments, topk = call.arguments, case.options.selection.topk
    run = partial(call.function, **arguments)
    shown = f"{size}, topk {topk}" if operation in SELECTED else size
    median, spread = graph_time(run)
    timing = Timing(binding.function.__name__, shown, median, spread)
    if binding.keeps_state:  # launched again, it has nothing to do; what it writes is its own
        return timing
    return replace(timing, launched=queued_time(run)[0], floor=floor.of(moved_by(call)))


def _cache_timings() -> Iterator[Timing]:
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
    for name, arguments in (("MetadataCache, kept", kept), ("MetadataCache, rebuilt", missed)):
        call.function(**arguments)
        run = partial(call.function, **arguments)
        yield Timing(name, f"{count} decodes, topk 2048, device", *queued_time(run))
        yield Timing(name, f"{count} decodes, topk 2048, host", *host_time(run))
