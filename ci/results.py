"""Adds up the figures of several ``cumae fuzz --json`` runs: ``results.py FOLDER FILE``."""

import json
import sys
from pathlib import Path
from typing import Any


def main(folder: Path, file: Path) -> None:
    """Write one record a kernel and set of checks, cases and comparisons added up."""
    runs = [json.loads(run.read_text()) for run in sorted(folder.glob("*.json"))]
    total: dict[tuple[str, int], dict[str, Any]] = {}
    for run in runs:
        for verdict in run.pop("verdicts"):
            known = total.setdefault((verdict["kernel"], len(verdict["checks"])), verdict)
            if known is not verdict:
                for name in ("cases", "comparisons"):
                    known[name] += verdict[name]
                known["seconds"] = max(known["seconds"], verdict["seconds"])
                if verdict["status"] != "agrees":
                    known["status"] = verdict["status"]
    machine = {name: value for name, value in runs[0].items() if name != "command"}
    commands = sorted({run["command"] for run in runs})
    content = {**machine, "commands": commands, "verdicts": list(total.values())}
    file.write_text(json.dumps(content, indent=1) + "\n")
    for verdict in total.values():
        cases = "1 case" if verdict["cases"] == 1 else f"{verdict['cases']} cases"
        print(verdict["kernel"], verdict["status"], f"{cases}, {verdict['comparisons']} comparisons")


main(Path(sys.argv[1]), Path(sys.argv[2]))
