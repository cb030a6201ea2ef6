"""Writes the figures of ``ci/results/*.json`` into the README; ``--check`` only compares."""

import json
import sys
from pathlib import Path
from typing import Any

from cumae.properties.reports import figures as told

ROOT = Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- figures: made by ci/figures.py -->", "<!-- end of figures -->"


def read(name: str) -> Any:
    """Return what a run wrote."""
    return json.loads((ROOT / f"ci/results/{name}.json").read_text())


def figures() -> str:
    """Return the tables."""
    lines = told.runs_lines(read("gpu-fuzz"), read("gpu-steps"))
    for line in (
        told.tests_line(read("gpu-tests")),
        told.bugs_line(read("cpu-bugs")["bugs"], read("gpu-bugs")["bugs"]),
        told.alarms_line(read("gpu-false-alarms"), read("cpu-false-alarms")),
        told.repeated_line(read("cpu-repeated")),
        told.attention_line(read("gpu-attention")),
    ):
        lines += ["", line]
    lines += [
        "",
        *told.mutants_lines(read("cpu-mutants")),
        "",
        *told.router_lines(read("cpu-router-bf16")),
        "",
    ]
    return "\n".join([*lines, *told.times_lines(read("gpu-bench")["timings"])])


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
