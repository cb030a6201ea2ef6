"""Run attention through the kernels together, on a small step without a GPU: ``attention.py OUT``."""

import sys
from pathlib import Path
from time import perf_counter

from cumae.properties.attention import judged
from cumae.properties.attention.production import faults_noticed, kernels, production_case
from cumae.properties.running.device import prepare
from cumae.properties.running.machine import measured
from cumae.properties.selfcheck.record import write_record

device, started = prepare("auto"), perf_counter()
on_gpu = device == "cuda"
sizes = [(64, 256, 64), (5, 2048, 256)] if on_gpu else [(9, 40, 5)]
answers, rows, faults, worst = kernels(device), 0, list[str](), 0.0
for num_requests, longest, topk in sizes:
    case = production_case(num_requests, longest, topk, block_size=64 if on_gpu else 4)
    found = judged(case, answers)
    rows, worst = rows + found.rows, max(worst, found.worst)
    faults += [f"{num_requests} requests: {fault}" for fault in found.faults]
noticed = faults_noticed(production_case(9, 40, 5, block_size=4), answers)
record = measured(
    "ci/attention.py",
    cases=[dict(zip(("requests", "longest_context", "topk"), size, strict=True)) for size in sizes],
    rows=rows,
    worst_error_over_bound=worst,
    faults=faults,
    planted=noticed,
    seconds=round(perf_counter() - started, 1),
)
write_record(Path(sys.argv[1]), record)
seen = sum(map(bool, noticed.values()))
print(
    f"{rows} rows, error {worst:.1e} of the bound, faults {faults}; noticed {seen} of {len(noticed)} planted"
)
sys.exit(bool(faults) or not all(noticed.values()))
