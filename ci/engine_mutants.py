"""Plant faults in released kernels and say which their adapters find: engine_mutants.py OUT ENGINE=FOLDER…"""

import argparse
import json
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from cumae.properties.engines.released import alone, engine_of
from cumae.properties.faults.mutants import Mutant
from cumae.properties.faults.released import kernel_mutants, planted
from cumae.properties.running.device import prepare
from cumae.properties.running.machine import machine
from cumae.properties.search.budget import Budget

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("out", type=Path)
parser.add_argument("roots", nargs="+", help="ENGINE=PATH of a folder of packages")
parser.add_argument("--only", nargs="*", help="run only these functions")
parser.add_argument("--most", type=int, default=10, help="mutants of each kernel")
parser.add_argument("--cases", type=int, default=40)
parser.add_argument("--jobs", type=int, default=1)


def tried(engine: str, name: str, root: Path, mutant: Mutant, source: str, budget: Budget) -> dict[str, Any]:
    """Return whether an adapter finds the fault, which is planted in a tree of links."""
    file = engine_of(engine).adapters[name].file
    changed = source[: mutant.start] + mutant.text + source[mutant.stop :]
    with planted(root, file, changed) as tree:
        one = alone(engine, name, str(tree), budget, "cpu")
    where = {"engine": engine, "function": name, "kernel": mutant.name, "line": mutant.line}
    found = {
        "status": one["status"],
        "cases": one["cases"],
        "report": one["report"].partition("\n\n")[2][:200],
    }
    return {**where, "operator": mutant.operator, "diff": mutant.diff, **found}


if __name__ == "__main__":  # spawned processes import this file
    given = parser.parse_args()
    prepare("cpu")
    budget, todo, done = Budget(examples=given.cases), [], set()
    for root in given.roots:
        engine, _, folder = root.partition("=")
        for name, adapter in engine_of(engine).adapters.items():
            source = (Path(folder) / adapter.file).read_text(encoding="utf-8")
            for mutant in kernel_mutants(source, adapter.names, given.most):
                key = (adapter.file, mutant.start, mutant.stop, mutant.text)
                if key not in done and name in (given.only or [name]):
                    done.add(key)
                    todo.append((engine, name, Path(folder).resolve(), mutant, source, budget))
    found: list[dict[str, Any]] = []
    with ThreadPoolExecutor(given.jobs) as pool:
        for future in as_completed([pool.submit(tried, *one) for one in todo]):
            found.append(one := future.result())
            print(
                one["status"],
                one["engine"],
                one["function"],
                one["kernel"],
                one["line"],
                one["operator"],
                flush=True,
            )
            counts = Counter(one["status"] for one in found)
            record = {**machine(), "command": " ".join(sys.argv[2:]), "statuses": counts, "mutants": found}
            given.out.write_text(json.dumps(record, indent=1) + "\n")  # at once: a run takes long
    print(dict(Counter(one["status"] for one in found)))
