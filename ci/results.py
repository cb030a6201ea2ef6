"""Sum up the figures of several runs: ``results.py RUNS RESULTS`` reads RUNS/fuzz and RUNS/steps.

Figures of other kernels in RESULTS are kept if they were measured on the same kind of machine.
"""

import json
import sys
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from typing import Any

from cumae.properties.selfcheck.record import write_record

runs, results = Path(sys.argv[1]), Path(sys.argv[2])
fuzzed, stepped = (
    [json.loads(f.read_text()) for f in sorted((runs / kind).glob("*.json"))] for kind in ("fuzz", "steps")
)


def write(file: Path, kind: str, key: Callable[[Any], Any], records: list[Any], found: list[Any]) -> None:
    """Write the machine, the commands and the records of each kernel; records with one ``key`` are alike."""
    machine = {k: v for k, v in records[0].items() if k in ("device", "python", "torch", "triton", "numpy")}
    commands = {record["command"] for record in records}
    before = json.loads(file.read_text()) if file.exists() else {}
    if before.items() >= machine.items():
        commands |= set(before["commands"])
        found = [one for one in before[kind] if key(one) not in set(map(key, found))] + found
    write_record(file, {**machine, "commands": sorted(commands), kind: found})


def kind_of(verdict: Any) -> tuple[str, int, bool]:
    """Return the kernel, the number of checks, and whether it is one large case."""
    return verdict["kernel"], len(verdict["checks"]), verdict["cases"] == 1


kept = ("kernel", "operation", "status", "checks", "cases", "comparisons", "several_right", "seconds")
total: dict[tuple[str, int, bool], dict[str, Any]] = {}
for verdict in ({n: v[n] for n in kept if n in v} for run in fuzzed for v in run["verdicts"]):
    known = total.setdefault(kind_of(verdict), verdict)
    if known is not verdict:
        known["cases"] += verdict["cases"]
        known["comparisons"] += verdict["comparisons"]
        known["seconds"] = max(known["seconds"], verdict["seconds"])
        known["status"] = known["status"] if verdict["status"] == "agrees" else verdict["status"]
write(results / "gpu-fuzz.json", "verdicts", kind_of, fuzzed, list(total.values()))
names = ("target", "operation", "steps", "captured", "engines", "seconds", "not_promised", "finding")
told = [{name: run[name] for name in names} for run in stepped]
write(results / "gpu-steps.json", "kernels", itemgetter("target"), stepped, told)
