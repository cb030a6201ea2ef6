"""Adds up the figures of several runs: ``results.py RUNS RESULTS`` reads RUNS/fuzz and RUNS/steps."""

import json
import sys
from pathlib import Path
from typing import Any

runs, results = Path(sys.argv[1]), Path(sys.argv[2])


def read(folder: Path) -> list[dict[str, Any]]:
    """Return what the runs of a folder wrote."""
    return [json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))]


def write(name: str, kind: str, records: list[dict[str, Any]], found: list[dict[str, Any]]) -> None:
    """Write the machine, the commands and what was found."""
    machine = {k: v for k, v in records[0].items() if k in ("device", "python", "torch", "triton", "numpy")}
    commands = sorted({record["command"] for record in records})
    content = {**machine, "commands": commands, kind: found}
    (results / name).write_text(json.dumps(content, indent=1) + "\n")


fuzzed = read(runs / "fuzz")
total: dict[tuple[str, int, bool], dict[str, Any]] = {}
for verdict in (verdict for run in fuzzed for verdict in run["verdicts"]):
    known = total.setdefault((verdict["kernel"], len(verdict["checks"]), verdict["cases"] == 1), verdict)
    if known is not verdict:
        known["cases"] += verdict["cases"]
        known["comparisons"] += verdict["comparisons"]
        known["seconds"] = max(known["seconds"], verdict["seconds"])
        known["status"] = known["status"] if verdict["status"] == "agrees" else verdict["status"]
write("gpu-fuzz.json", "verdicts", fuzzed, list(total.values()))
stepped = read(runs / "steps")
names = ("target", "operation", "steps", "captured", "engines", "seconds", "not_promised", "finding")
write("gpu-steps.json", "kernels", stepped, [{name: run[name] for name in names} for run in stepped])
for verdict in total.values():
    print(
        verdict["kernel"], verdict["status"], verdict["cases"], "cases", verdict["comparisons"], "comparisons"
    )
