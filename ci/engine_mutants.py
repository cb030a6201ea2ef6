"""Plant faults in released kernels and say which their adapters find: engine_mutants.py OUT ENGINE=FOLDER…

The first faults of each kernel that some adapter launches, or any, on lines that run there. A fault
survives if all adapters of its kernel agree; the others of the kernel are tried until one finds it.
ci/mutant_record.py joins the records of several runs.
"""

import argparse
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import Any

from cumae.properties.engines.released import engine_of
from cumae.properties.running.device import prepare
from cumae.properties.running.machine import measured
from cumae.properties.search.budget import Budget
from cumae.properties.selfcheck.record import write_record
from cumae.properties.selfcheck.released_mutants import mutants_of, survivors_of, tried

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("out", type=Path)
parser.add_argument("roots", nargs="+", help="ENGINE=PATH of a folder of packages")
parser.add_argument("--only", nargs="*", default=(), help="try only these functions")
parser.add_argument("--survivors-of", type=Path, help="try only faults that survived in this record")
parser.add_argument("--most", type=int, default=10, help="mutants of each kernel")
parser.add_argument("--seed", type=int, help="try any mutants of each kernel instead of its first ones")
parser.add_argument("--cases", type=int, default=40)
parser.add_argument("--jobs", type=int, default=1)

if __name__ == "__main__":  # spawned processes import this file
    given = parser.parse_args()
    prepare("cpu")
    budget, found = Budget(examples=given.cases, most_shrinking=0.1), list[dict[str, Any]]()
    survived = survivors_of(given.survivors_of) if given.survivors_of else None
    plain = Budget(examples=given.cases)
    faults = partial(mutants_of, most=given.most, budget=plain, jobs=given.jobs, seed=given.seed)
    roots = {engine: Path(root).resolve() for engine, _, root in (one.partition("=") for one in given.roots)}
    known = {engine: engine_of(engine).adapters for engine in roots}
    for name in given.only:
        if not any(name in adapters for adapters in known.values()):
            parser.error(f"--only {name}: must be an adapter of {' or '.join(roots)}")
    only = {engine: [name for name in given.only if name in adapters] for engine, adapters in known.items()}
    planned = [
        (engine, names, root, mutant)
        for engine, root in roots.items()
        if only[engine] or not given.only
        for names, mutant in faults(engine, root, only[engine], survived=survived)
    ]
    print(len(planned), "faults", flush=True)
    with ThreadPoolExecutor(given.jobs) as pool:
        todo = [pool.submit(tried, *one, budget) for one in planned]
        for future in as_completed(todo):
            found.append(one := future.result())
            said = (one[name] for name in ("status", "engine", "function", "kernel", "line", "operator"))
            print(*said, f"{len(found)} of {len(todo)}", flush=True)
            counts = Counter(one["status"] for one in found)
            record = measured(" ".join(sys.argv[2:]), statuses=counts, mutants=found)
            write_record(given.out, record)  # at once: a run takes long
    print(dict(Counter(one["status"] for one in found)))
