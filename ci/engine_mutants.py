"""Plant faults in released kernels and say which their adapters find: engine_mutants.py OUT ENGINE=FOLDER…

The first faults of each kernel that some adapter launches, on lines that run there. A fault survives if all
adapters of its kernel agree; the others of the kernel are tried until one finds it. ci/mutant_record.py joins
the records of several runs.
"""

import argparse
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from cumae.properties.engines.released import alone, engine_of
from cumae.properties.faults.mutants import Mutant
from cumae.properties.faults.released import kernel_mutants, planted
from cumae.properties.running.device import prepare
from cumae.properties.running.machine import measured
from cumae.properties.search.budget import Budget
from cumae.properties.search.direct import check
from cumae.properties.selfcheck.own_process import in_own_process
from cumae.properties.selfcheck.record import write_record

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("out", type=Path)
parser.add_argument("roots", nargs="+", help="ENGINE=PATH of a folder of packages")
parser.add_argument("--only", nargs="*", help="try only these functions")
parser.add_argument("--survivors-of", type=Path, help="try only faults that survived in this record")
parser.add_argument("--most", type=int, default=10, help="mutants of each kernel")
parser.add_argument("--cases", type=int, default=40)
parser.add_argument("--jobs", type=int, default=1)
AGREES = ("agrees", "known")
Lines = tuple[str, str, frozenset[int] | None]


def lines_run(engine: str, name: str, root: Path, budget: Budget) -> dict[str, frozenset[int]]:
    """Return the lines of each kernel in the adapter's file that run under the adapter, agreeing or not."""
    prepare("cpu")
    adapter = engine_of(engine).adapters[name]
    given: dict[str, Any] = {"dialect": adapter.dialect, "domain": adapter.domain, "device": "cpu"}
    given |= {"checks": ("agrees",), "examples": budget.examples, "save_to": None}
    verdict = check(adapter.function(root), adapter.operation, **given)
    return {one.name: one.ran for one in verdict.coverage if one.file.endswith(adapter.file) and one.ran}


def tried(engine: str, names: Collection[str], root: Path, mutant: Mutant, budget: Budget) -> dict[str, Any]:
    """Return which adapter finds the fault, planted in a tree of links; if none does, the last one."""
    one: dict[str, Any] = {}
    for name in names:
        file = engine_of(engine).adapters[name].file
        source = (root / file).read_text(encoding="utf-8")
        with planted(root, file, source[: mutant.start] + mutant.text + source[mutant.stop :]) as tree:
            one = alone(engine, name, str(tree), budget, "cpu")
        if one["status"] not in AGREES:
            break
    where = {"engine": engine, "kernel": mutant.name, "line": mutant.line, "operator": mutant.operator}
    found = {name: one[name] for name in ("function", "status", "cases")}
    return {**where, "diff": mutant.diff, **found, "report": one["report"].partition("\n\n")[2][:200]}


def survivors_of(record: Path) -> set[tuple[str, str, str]]:
    """Return engine, kernel and difference of each fault that survived in a record."""
    survived = [one for one in json.loads(record.read_text())["mutants"] if one["status"] in AGREES]
    return {(one["engine"], one["kernel"], one["diff"]) for one in survived}


def lines_by_adapter(engine: str, root: Path, given: argparse.Namespace) -> Iterator[Lines]:
    """Yield each adapter with a kernel that it launches, and the lines that run there; None for all lines."""
    adapters, budget = engine_of(engine).adapters, Budget(examples=given.cases)
    names = given.only or adapters
    if given.survivors_of:  # faults that survived lie on lines that ran
        for name in names:
            source = (root / adapters[name].file).read_text(encoding="utf-8")
            yield from ((name, one.name, None) for one in kernel_mutants(source, adapters[name].names, 1))
        return
    context = get_context("forkserver")
    context.set_forkserver_preload(["torch"])
    run = partial(in_own_process, context, lines_run)
    with ThreadPoolExecutor(given.jobs) as pool:
        seen = {name: pool.submit(run, engine, name, root, budget) for name in names}
        for name, future in seen.items():
            yield from ((name, kernel, lines) for kernel, lines in future.result().items())


def mutants_of(engine: str, root: Path, given: argparse.Namespace) -> list[tuple[list[str], Mutant]]:
    """Return the mutants of an engine's kernels, each with the adapters that run its line."""
    adapters, found = engine_of(engine).adapters, list[tuple[list[str], Mutant]]()
    ran: dict[tuple[str, str], dict[str, frozenset[int] | None]] = defaultdict(dict)
    for name, kernel, lines in lines_by_adapter(engine, root, given):
        ran[adapters[name].file, kernel][name] = lines
    survived = survivors_of(given.survivors_of) if given.survivors_of else None
    for (file, kernel), users in sorted(ran.items()):
        source = (root / file).read_text(encoding="utf-8")
        of_kernel = [one for one in kernel_mutants(source, (kernel,), sys.maxsize) if one.name == kernel]
        first: list[tuple[list[str], Mutant]] = []
        for one in of_kernel:
            names = [n for n, lines in users.items() if lines is None or {one.line, one.first} & lines]
            if names and (survived is None or (engine, kernel, one.diff) in survived):
                first.append((names, one))
        found += first[: given.most]
    return found


if __name__ == "__main__":  # spawned processes import this file
    given = parser.parse_args()
    prepare("cpu")
    budget, found = Budget(examples=given.cases, most_shrinking=0.1), list[dict[str, Any]]()
    roots = {engine: Path(root).resolve() for engine, _, root in (one.partition("=") for one in given.roots)}
    with ThreadPoolExecutor(given.jobs) as pool:
        todo = [
            pool.submit(tried, engine, names, root, mutant, budget)
            for engine, root in roots.items()
            for names, mutant in mutants_of(engine, root, given)
        ]
        for future in as_completed(todo):
            found.append(one := future.result())
            said = (one[name] for name in ("status", "engine", "function", "kernel", "line", "operator"))
            print(*said, f"{len(found)} of {len(todo)}", flush=True)
            counts = Counter(one["status"] for one in found)
            record = measured(" ".join(sys.argv[2:]), statuses=counts, mutants=found)
            write_record(given.out, record)  # at once: a run takes long
    print(dict(Counter(one["status"] for one in found)))
