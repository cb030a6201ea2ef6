"""Tries the adapters on released engines: engines.py OUT ENGINE=WHEEL…; exit status 1 where one disagrees."""

import argparse
import json
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

from cumae.properties.engines.released import engine_of, tried
from cumae.properties.running.device import DEVICES, prepare
from cumae.properties.running.machine import machine

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("out", type=Path)
parser.add_argument("roots", nargs="+", help="ENGINE=WHEEL, or a folder or a checkout")
parser.add_argument("--only", action="append", help="only this function; may be repeated")
parser.add_argument("--cases", type=int, default=200)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--jobs", type=int, default=1, help="processes at once; each function has one of its own")
parser.add_argument("--device", choices=DEVICES, default="auto")

if __name__ == "__main__":  # a process that is spawned imports this file
    given = parser.parse_args()
    device, found = prepare(given.device), []
    roots = dict(root.split("=", 1) for root in given.roots)
    todo = [(engine, name, root) for engine, root in roots.items() for name in engine_of(engine).adapters]
    with ProcessPoolExecutor(given.jobs, get_context("spawn"), max_tasks_per_child=1) as pool:
        how = (given.cases, given.seed, device)
        kept = [one for one in todo if not given.only or one[1] in given.only]
        for future in as_completed([pool.submit(tried, *one, *how) for one in kept]):
            one = future.result()
            found.append(one)
            print(f"{one['status']}: {one['engine']} {one['function']}, {one['cases']} cases", flush=True)
            print(one["report"], end="\n" if one["report"] else "", flush=True)
    releases = {engine: Path(root).name for engine, root in roots.items()}
    record = {**machine(), "cases": given.cases, "seed": given.seed, "releases": releases}
    found.sort(key=lambda one: (one["engine"], one["function"]))
    given.out.write_text(json.dumps({**record, "functions": found}, indent=1) + "\n")
    sys.exit(any(one["status"] != "agrees" for one in found))
