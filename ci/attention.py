"""Run attention through the kernels at production size, small without a GPU: ``attention.py OUT``."""

import json
import sys
from pathlib import Path
from time import perf_counter

from cumae.properties.attention.large import Dims
from cumae.properties.attention.large_routes import compared
from cumae.properties.attention.production import faults_noticed, kernels, production_case
from cumae.properties.running.device import prepare
from cumae.properties.running.machine import machine

device, started = prepare("auto"), perf_counter()
on_gpu = device == "cuda"
dims = Dims() if on_gpu else Dims(2, 8, 4)
sizes = [(64, 2048, 256), (16, 16384, 64)] if on_gpu else [(9, 40, 5)]
rows, faults, worst, noticed = 0, [], 0.0, {}
for num_requests, longest, topk in sizes:
    case = production_case(num_requests, longest, topk, block_size=64 if on_gpu else 4)
    answers = kernels(device)
    for route in compared(case, answers, device, dims):
        rows, worst = rows + route.rows, max(worst, route.worst)
        faults += [] if route.worst <= 1 else [f"{route.route} of {num_requests} requests: {route.worst}"]
    if not noticed:
        noticed = faults_noticed(case, answers, device, dims)
record = {
    **machine(),
    "command": "ci/attention.py",
    "dims": dims._asdict(),
    "cases": [dict(zip(("requests", "longest_context", "topk"), size, strict=True)) for size in sizes],
    "rows": rows,
    "worst_error_over_bound": worst,
    "faults": faults,
    "planted": {name: [route.route for route in routes] for name, routes in noticed.items()},
    "seconds": round(perf_counter() - started, 1),
}
Path(sys.argv[1]).write_text(json.dumps(record, indent=1) + "\n")
print(f"{rows} rows, error {worst:.1e} of the bound, {len(faults)} faults; planted: {record['planted']}")
sys.exit(bool(faults) or not all(noticed.values()))
