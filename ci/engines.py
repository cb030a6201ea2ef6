"""Run adapters on released engines: engines.py OUT ENGINE=WHEEL…; exit status 1 for what is not known."""

import argparse
import sys
from pathlib import Path

from cumae.properties.engines.released import all_tried, engine_of
from cumae.properties.running.device import DEVICES, prepare
from cumae.properties.running.machine import measured
from cumae.properties.search.budget import Budget
from cumae.properties.selfcheck.record import write_record

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("out", type=Path)
parser.add_argument("roots", nargs="+", help="ENGINE=PATH of a wheel, a folder or a checkout")
parser.add_argument("--only", nargs="*", help="run only these functions")
parser.add_argument("--cases", type=int, help="cases of each function (default: as many as --seconds allows)")
parser.add_argument("--seconds", type=float, default=20.0)
parser.add_argument("--jobs", type=int, default=1, help="processes at a time; each function runs in its own")
parser.add_argument("--device", choices=DEVICES, default="auto")

if __name__ == "__main__":  # spawned processes import this file
    given = parser.parse_args()
    device, found = prepare(given.device), []
    roots = dict(root.split("=", 1) for root in given.roots)
    todo = [(engine, name, roots[engine]) for engine in roots for name in engine_of(engine).adapters]
    todo = [one for one in todo if one[1] in (given.only or [one[1]])]
    budget = Budget(examples=given.cases, seconds=None if given.cases else given.seconds)
    releases = {engine: Path(root).name for engine, root in roots.items()}
    command = " ".join(word.partition("=")[0] for word in sys.argv if word != str(given.out))
    for one in all_tried(todo, given.jobs, budget, device):
        found.append(one)
        print(*(one[n] for n in ("status", "engine", "function", "cases", "report")), flush=True)
        functions = sorted(found, key=lambda one: (one["engine"], one["function"]))
        record = measured(command, releases=releases, functions=functions)
        write_record(given.out, record)  # at once: a run takes long
    sys.exit(any(one["status"] not in ("agrees", "known") for one in found))
