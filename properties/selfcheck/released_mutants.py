"""Faults planted in released kernels, and which adapters find them.

A fault survives if all adapters that run its line agree. None is planted on a line that no adapter runs.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any

from cumae.properties.engines.released import alone, engine_of
from cumae.properties.faults.mutants import Mutant
from cumae.properties.faults.released import kernel_mutants, planted
from cumae.properties.running.device import prepare
from cumae.properties.search.budget import Budget
from cumae.properties.search.direct import check
from cumae.properties.selfcheck.mutant_record import AGREES
from cumae.properties.selfcheck.own_process import in_own_process

Fault = tuple[str, str, str]
"""Engine, kernel and difference of a fault."""
Lines = tuple[str, str, frozenset[int] | None]


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


def survivors_of(record: Path) -> set[Fault]:
    """Return engine, kernel and difference of each fault that survived in a record."""
    survived = [one for one in json.loads(record.read_text())["mutants"] if one["status"] in AGREES]
    return {(one["engine"], one["kernel"], one["diff"]) for one in survived}


def mutants_of(
    engine: str,
    root: Path,
    names: Sequence[str],
    most: int,
    *,
    budget: Budget,
    jobs: int,
    survived: Collection[Fault] | None = None,
    seed: int | None = None,
) -> list[tuple[list[str], Mutant]]:
    """Return mutants of each kernel of an engine, each with the adapters that run its line.

    ``names``: adapters, none for all of the engine. ``most``: mutants of each kernel, its first ones or,
    with a ``seed``, any. ``survived``: only these, on whichever line.
    """
    adapters, found = engine_of(engine).adapters, list[tuple[list[str], Mutant]]()
    ran: dict[tuple[str, str], dict[str, frozenset[int] | None]] = defaultdict(dict)
    lines_of = _all_lines(engine, root, names) if survived is not None else None
    for name, kernel, lines in lines_of or _lines_by_adapter(engine, root, names, budget, jobs):
        ran[adapters[name].file, kernel][name] = lines
    for (file, kernel), users in sorted(ran.items()):
        source = (root / file).read_text(encoding="utf-8")
        chosen: list[tuple[list[str], Mutant]] = []
        for one in kernel_mutants(source, (kernel,), sys.maxsize):
            run_it = [n for n, lines in users.items() if lines is None or {one.line, one.first} & lines]
            wanted = survived is None or (engine, kernel, one.diff) in survived
            if one.name == kernel and run_it and wanted:
                chosen.append((run_it, one))
        if seed is not None:
            Random(f"{seed} {file} {kernel}").shuffle(chosen)
        found += chosen[:most]
    return found


def _all_lines(engine: str, root: Path, names: Sequence[str]) -> Iterator[Lines]:
    """Yield each adapter with a kernel that it launches, and None for all lines of it."""
    adapters = engine_of(engine).adapters
    for name in names or adapters:
        source = (root / adapters[name].file).read_text(encoding="utf-8")
        yield from ((name, one.name, None) for one in kernel_mutants(source, adapters[name].names, 1))


def _lines_by_adapter(
    engine: str, root: Path, names: Sequence[str], budget: Budget, jobs: int
) -> Iterator[Lines]:
    """Yield each adapter with a kernel that it launches, and the lines that run there."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["torch"])
    run = partial(in_own_process, context, _lines_run)
    with ThreadPoolExecutor(jobs) as pool:
        wanted = names or engine_of(engine).adapters
        seen = {name: pool.submit(run, engine, name, root, budget) for name in wanted}
        for name, future in seen.items():
            yield from ((name, kernel, lines) for kernel, lines in future.result().items())


def _lines_run(engine: str, name: str, root: Path, budget: Budget) -> dict[str, frozenset[int]]:
    """Return the lines of each kernel in the adapter's file that run under the adapter, agreeing or not."""
    prepare("cpu")
    adapter = engine_of(engine).adapters[name]
    given: dict[str, Any] = {"dialect": adapter.dialect, "domain": adapter.domain, "device": "cpu"}
    given |= {"checks": ("agrees",), "examples": budget.examples, "save_to": None}
    verdict = check(adapter.function(root), adapter.operation, **given)
    return {one.name: one.ran for one in verdict.coverage if one.file.endswith(adapter.file) and one.ran}
