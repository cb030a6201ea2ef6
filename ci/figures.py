"""Writes the figures of ``ci/results/*.json`` into the README; ``--check`` only compares."""

import json
import sys
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- figures: made by ci/figures.py -->", "<!-- end of figures -->"


def figures() -> str:
    """Return the tables."""
    fuzz, steps, bench = (
        json.loads((ROOT / f"ci/results/gpu-{name}.json").read_text()) for name in ("fuzz", "steps", "bench")
    )
    machine = f"{fuzz['device']}, torch {fuzz['torch']}, triton {fuzz['triton']}, Python {fuzz['python']}"
    lines = [f"On one {machine}, by `./ci/gpu`, cases and disagreements:", ""]
    lines += ["| kernel | one very large case | every check | values, extent, bounds, garbage, determinism |"]
    lines[-1] += " steps through captured graphs |"
    lines += ["|---|---|---|---|---|"]
    runs: dict[str, dict[str, str]] = {}
    for verdict in fuzz["verdicts"]:
        column = {1: "large", 5: "volume"}.get(
            1 if verdict["cases"] == 1 else len(verdict["checks"]), "every"
        )
        wrong = "0" if verdict["status"] == "agrees" else verdict["status"]
        counted = runs.setdefault(verdict["kernel"].partition(":")[2], {})
        cases = "1 case" if verdict["cases"] == 1 else f"{verdict['cases']:,} cases"
        counted[column] = f"{cases}, {wrong}"
    for kernel in steps["kernels"]:
        wrong = "0" if kernel["finding"] is None else "disagrees"
        said = f"{kernel['steps']:,} steps, {kernel['captured']} graphs, {wrong}"
        runs.setdefault(kernel["target"].partition(":")[2], {})["steps"] = said
    for name, counted in sorted(runs.items()):
        cells = " | ".join(counted.get(column, "–") for column in ("large", "every", "volume", "steps"))
        lines.append(f"| `{name}` | {cells} |")
    bugs = json.loads((ROOT / "ci/results/cpu-bugs.json").read_text())["bugs"]
    caught = [bug for bug in bugs if bug["check"]]
    seconds = sorted(bug["seconds"] for bug in caught)
    requests = max(bug["minimal"]["requests"] for bug in caught)
    lines += [
        "",
        f"Known bugs (`cumae bugs`, CPU): {len(caught)} of {len(bugs)} found, one needs a GPU; median",
    ]
    lines[-1] += (
        f" {median(seconds):.2f} s, slowest {seconds[-1]:.1f} s, minimal cases of {requests} requests or fewer."
    )
    alarms = json.loads((ROOT / "ci/results/gpu-false-alarms.json").read_text())
    told = f"{alarms['cases']:,} cases of {len(alarms['implementations'])} correct implementations"
    lines += ["", f"False alarms (`ci/false_alarms.py`): {alarms['accusations']} in {told}."]
    lines += [
        "",
        "Device time of one call in a CUDA graph (`cumae bench`; what is named host or device was launched):",
        "",
        "| kernel | size | time |",
    ]
    lines += ["|---|---|---|"]
    for timing in bench["timings"]:
        rate = timing["gigabytes_per_second"]
        speed = f", {rate:,.0f} GB/s read and written" if rate else ""
        lines.append(f"| `{timing['kernel']}` | {timing['size']} | {timing['microseconds']:.1f} µs{speed} |")
    return "\n".join(lines)


def main() -> int:
    """Rewrite or check the README."""
    readme = ROOT / "README.md"
    text = readme.read_text()
    head, _, rest = text.partition(BEGIN)
    wanted = f"{head}{BEGIN}\n{figures()}\n{END}{rest.partition(END)[2]}"
    if "--check" not in sys.argv:
        readme.write_text(wanted)
    return int("--check" in sys.argv and wanted != text)


sys.exit(main())
