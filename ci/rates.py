"""Measure how many cases a second a search tries: rates.py OUT [--seconds S] [--processes N] [--before FILE].

FILE is what this script wrote for an earlier version on the same machine; it stands beside the new figures.
"""

import argparse
import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

from cumae.properties.checks import checks_for
from cumae.properties.operations.binding import binding_of
from cumae.properties.operations.targets import load_function
from cumae.properties.running.device import prepare
from cumae.properties.running.machine import measured
from cumae.properties.selfcheck.rates import drawn, launched, repeated, searched, seeded
from cumae.properties.selfcheck.record import write_record

DEVICE = prepare("auto")
KERNEL, OPERATION = "cumae.gpu_impl:write_position_ids", "position_ids"
BINDING = binding_of(load_function(KERNEL), OPERATION)
CONSTANT = ("agrees", "writes_everything", "stays_in_bounds", "ignores_garbage", "is_deterministic")
CHECKS = {"3": CONSTANT[:3], "5": CONSTANT, "every": checks_for(BINDING, DEVICE)}
"""Checks that run on every case, and all of them, of which some run on every third to twentieth case."""
WARM_UP = 2.0


def several(count: int, seconds: float) -> float:
    """Return the cases a second of so many processes that search at once."""
    command = [sys.executable, __file__, "-", "--seconds", str(seconds)]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(count)]
    rates: list[float] = [json.loads(process.communicate()[0])["rate"] for process in started]
    return sum(rates)


def rates(seconds: float, processes: int) -> dict[str, Any]:
    """Return the cases a second of generators, calls, searches, and of processes at once."""
    return {
        "generators": {
            "seeded": repeated(seconds, partial(next, seeded(BINDING))),
            "drawn": repeated(seconds, partial(drawn, BINDING, 50), 50),
        },
        "launched": launched(BINDING, DEVICE, seconds),
        "searches": [
            {
                "checks": name,
                "cases": by,
                **searched(BINDING, DEVICE, checks, seconds, by_hypothesis=by == "drawn"),
            }
            for by in ("seeded", "drawn")
            for name, checks in CHECKS.items()
        ],
        "processes": processes,
        "together": several(processes, seconds),
    }


def main() -> None:
    """Measure, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", help="the file to write; - prints the rate of one search alone")
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--processes", type=int, default=16)
    parser.add_argument("--before", type=Path)
    asked = parser.parse_args()
    searched(BINDING, DEVICE, CONSTANT, WARM_UP)
    if asked.out == "-":
        print(json.dumps(searched(BINDING, DEVICE, CONSTANT[:3], asked.seconds)))
        return
    command = f"ci/rates.py --seconds {asked.seconds:g} --processes {asked.processes}"
    record = measured(command, kernel=KERNEL, now=rates(asked.seconds, asked.processes))
    if asked.before is not None:
        record["before"] = json.loads(asked.before.read_text())["now"]
    write_record(Path(asked.out), record)


if __name__ == "__main__":
    main()
