"""Search for each function that is wrong beyond a limit as `cumae.check` does: ``limits.py OUT``.

A function that agrees is one whose limit is out of reach. Each is searched in its own process.
"""

import argparse
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

from cumae.properties.cases.domain import Domain
from cumae.properties.running.device import DEVICES, prepare
from cumae.properties.running.machine import measured
from cumae.properties.search.budget import Budget
from cumae.properties.search.direct import search_directly
from cumae.properties.search.job import Job
from cumae.properties.selfcheck.own_process import in_own_process
from cumae.properties.selfcheck.record import write_record

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("out", type=Path)
parser.add_argument("--device", choices=DEVICES, default="auto")
parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
parser.add_argument(
    "--examples", type=int, default=200, help="cases of each search (default: those of cumae.check)"
)
parser.add_argument("--only", default="", help="run only functions whose module and name contain this")


def searched(number: int, examples: int, device: str) -> dict[str, Any]:
    """Return what the default search finds in one function."""
    chosen = prepare(device)
    from cumae.fixtures.limits import LIMITS

    limit = LIMITS[number]
    job = Job(
        target=limit.target,
        operation=limit.operation,
        domain=Domain(**{"captured": False, **limit.promises}),
        device=chosen,
        budget=Budget(examples),
        reduce=False,
    )
    found = search_directly(job)
    check = found.failure.finding.check if found.failure else ""
    known = {name: getattr(limit, name) for name in ("where", "operation", "kind", "hidden")}
    return {**known, "check": check, "cases": found.cases, "seconds": round(found.seconds, 2)}


if __name__ == "__main__":  # spawned processes import this file
    given = parser.parse_args()
    device, found = prepare(given.device), []  # before triton is imported
    from cumae.fixtures.limits import LIMITS

    todo = [number for number, limit in enumerate(LIMITS) if given.only in limit.where]
    search = partial(in_own_process, get_context("spawn"), searched)
    with ThreadPoolExecutor(given.jobs) as pool:
        for future in as_completed([pool.submit(search, n, given.examples, device) for n in todo]):
            one = future.result()
            found.append(one)
            told = f"found by {one['check']}" if one["check"] else "PASSES"
            print(f"{one['where']}: {told}, {one['cases']} cases, {one['seconds']} s", flush=True)
    found.sort(key=lambda one: (one["kind"], one["where"]))
    kinds = sorted({one["kind"] for one in found})
    caught = [one for one in found if one["check"]]
    sums = {kind: [sum(one["kind"] == kind for one in few) for few in (caught, found)] for kind in kinds}
    command = f"ci/limits.py --examples {given.examples}"
    write_record(given.out, measured(command, found_of_kind=sums, functions=found))
    print(*(f"{kind}: {now} of {all_of} found" for kind, (now, all_of) in sums.items()), sep="\n")
    seconds = median(one["seconds"] for one in caught) if caught else 0.0
    print(f"{len(caught)} of {len(found)} found, median {seconds} s")
