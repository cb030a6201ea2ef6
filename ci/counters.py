"""Read hardware counters of kernels that miss an aim: counters.py OUT, on a GPU with ncu (Nsight Compute)."""

import csv
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from cumae.properties.bench.device_times import SELECTED, large_steps
from cumae.properties.bench.router_times import router_call
from cumae.properties.bench.step_times import SHAPES, drawn_step
from cumae.properties.dialects import CUMAE
from cumae.properties.operations import OPERATIONS
from cumae.properties.operations.binding import bind
from cumae.properties.operations.targets import load_function
from cumae.properties.running.bench import Bench
from cumae.properties.running.device import prepare
from cumae.properties.running.machine import measured
from cumae.properties.selfcheck.record import write_record

COUNTERS = {
    "gpu__time_duration.sum": "ns",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": "memory",
    "lts__throughput.avg.pct_of_peak_sustained_elapsed": "second-level cache",
    "l1tex__throughput.avg.pct_of_peak_sustained_active": "first-level cache",
    "sm__issue_active.avg.pct_of_peak_sustained_active": "issuing cycles",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "warps",
    "launch__registers_per_thread": "registers",
}
"""Percent of what the GPU can do, but nanoseconds and registers of a thread."""
STEPS = ("64 requests, 62,560 tokens", "65,536 requests, 1,000,000 tokens")
OPERATIONS_ON_STEPS = ("sparse_schedule", "persistent_buffers", "topk_to_slots", "compact_topk_slots")


def calls() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield what is called, in words, and the call."""
    for size in ("1,024 requests of up to 64 tokens", "64 requests of up to 2,048 tokens"):
        ways = dict(drawn_step("cuda", SHAPES[size]).ways())
        yield f"write_step_metadata, {size}", ways["write_step_metadata"]
    for dtype in (torch.bfloat16, torch.float32):
        name = f"write_grouped_topk, 65,536 tokens, {str(dtype).removeprefix('torch.')}"
        yield name, router_call("cumae.gpu_impl:write_grouped_topk", 65_536, dtype)
    for size in STEPS:
        for name in OPERATIONS_ON_STEPS:
            operation, case = OPERATIONS[name], replace(large_steps()[size], options=SELECTED[name])
            for kernel in operation.kernels:
                call = Bench(bind(load_function(kernel), operation, CUMAE), case, "cuda").call(poison=0)
                yield f"{kernel.partition(':')[2]}, {size}", partial(call.function, **call.arguments)


def run_all() -> None:
    """Call each once under the profiler, marked by its name."""
    for name, call in calls():
        call()
        torch.cuda.synchronize()
        torch.cuda.nvtx.range_push(name)
        torch.cuda.profiler.start()
        call()
        torch.cuda.synchronize()
        torch.cuda.profiler.stop()
        torch.cuda.nvtx.range_pop()


def read(text: str) -> list[dict[str, Any]]:
    """Return the counters of each launch from what ncu printed."""
    rows = csv.DictReader(text[text.index('"ID"') :].splitlines())
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        one = found.setdefault(row["ID"], {"kernel": row["Kernel Name"], "call": _mark(row)})
        one[COUNTERS[row["Metric Name"]]] = float(row["Metric Value"].replace(",", ""))
    return list(found.values())


def _mark(row: dict[str, str]) -> str:
    """Return what a launch was marked as: ``1083 "<default domain>:MARK:none:none…"``."""
    marks = next(value for name, value in row.items() if "Push/Pop" in name)
    return marks.partition(">:")[2].partition(":none")[0]


if __name__ == "__main__":
    prepare("cuda")
    if sys.argv[1] == "--calls":
        run_all()
    else:
        how = ["--csv", "--nvtx", "--profile-from-start", "off", "--metrics", ",".join(COUNTERS)]
        command = ["ncu", *how, sys.executable, __file__, "--calls"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        write_record(Path(sys.argv[1]), measured("ci/counters.py", launches=read(done.stdout)))
