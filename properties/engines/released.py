"""The adapters of all engines, each tried on released code."""

import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from importlib import import_module
from multiprocessing import get_context
from typing import Any

from cumae.oracle.model.rules import require_choice
from cumae.properties.engines.adapter import Adapter, Engine
from cumae.properties.operations.binding import binding_of
from cumae.properties.results.explain import explain
from cumae.properties.running.device import current, prepare
from cumae.properties.search.budget import Budget
from cumae.properties.search.first_cases import first_cases
from cumae.properties.search.loop import search

ENGINES = ("fla", "flashinfer", "lightllm", "lmdeploy", "sglang", "vllm")


def engine_of(name: str) -> Engine:
    """Return an engine's adapters. Raises ``ValueError`` for an engine that has none."""
    require_choice("engine", name, ENGINES)
    engine: Engine = import_module(f"cumae.properties.engines.{name}").ENGINE
    return engine


def tried(engine: str, name: str, root: str, budget: Budget, device: str) -> dict[str, Any]:
    """Return the result of checking one released function, as plain data.

    ``root``: the wheel, the folder of packages or the checkout. ``status``: ``agrees``; ``NEW`` for a
    disagreement; ``known`` if the function agrees beside a known one, or ``mended`` if also its case agrees;
    ``gone`` if the function could not be taken, and ``changed`` if it takes other arguments than in the
    releases that its adapter knows. ``report``: why, in words.
    """
    adapter = engine_of(engine).adapters[name]
    known, domain = adapter.known, adapter.domain
    chosen = prepare(device)
    try:
        function = adapter.function(root)
    except ValueError as error:
        return {**_nothing(engine, name), "status": "gone", "report": str(error)}
    beside = domain if known is None else domain.having(**known.without)
    binding = binding_of(function, adapter.operation, adapter.dialect, beside)
    verdict = search(binding, chosen, budget, first=first_cases(binding, binding.name, None), save_to=None)
    counts = {name: getattr(verdict, name) for name in ("cases", "comparisons", "seconds", "largest")}
    said = {**_nothing(engine, name), "status": verdict.status, **counts}
    if verdict.failure is not None:
        if told := _other_arguments(adapter, verdict.failure.finding.traceback):
            return {**said, "status": "changed", "report": told}
        return {**said, "status": "NEW", "report": explain(verdict)}
    if known is None or not verdict.ok:
        return said
    shown = known.shown(binding_of(function, adapter.operation, adapter.dialect, domain), current())
    if not shown:
        return {**said, "status": "mended", "report": f"{known.case}.json agrees now; it was: {known.told}"}
    return {**said, "status": "known", "report": f"{known.told}; in {known.case}.json: {shown}"}


def all_tried(
    functions: Sequence[tuple[str, str, str]], num_processes: int, budget: Budget, device: str
) -> Iterator[dict[str, Any]]:
    """Yield the result of each engine, function and root as it is ready; each runs in its own process."""
    with ThreadPoolExecutor(num_processes) as pool:
        for future in as_completed([pool.submit(alone, *one, budget, device) for one in functions]):
            yield future.result()


def alone(engine: str, name: str, root: str, budget: Budget, device: str) -> dict[str, Any]:
    """Return the result of one function from a process of its own, which it may kill."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["torch"])
    with ProcessPoolExecutor(1, context) as pool:
        try:
            return pool.submit(tried, engine, name, root, budget, device).result()
        except BrokenProcessPool:
            return {**_nothing(engine, name), "status": "died", "report": "the function killed its process"}


def _other_arguments(adapter: Adapter, traceback: str) -> str:
    """Return in words that a function does not take its adapter's arguments; "" if it failed otherwise."""
    called = "|".join(re.escape(name) for name in adapter.names)
    wrong = rf"TypeError: (.*\b({called})(\.__init__|\.__call__)?\(\) (got|missing|takes) .*)"
    unknown = r"AttributeError: ('types\.SimpleNamespace' object has no attribute .*)"
    found = re.search(wrong, traceback) or re.search(unknown, traceback)
    known = ", ".join(adapter.versions)
    return f"{found[1]}: its adapter passes the arguments of {known}" if found else ""


def _nothing(engine: str, name: str) -> dict[str, Any]:
    """Return the record of a function of which nothing is known yet."""
    adapter = engine_of(engine).adapters[name]
    operation = adapter.operation if isinstance(adapter.operation, str) else adapter.operation.name
    said = {"engine": engine, "function": name, "file": adapter.file, "operation": operation}
    return {**said, "status": "", "cases": 0, "comparisons": 0, "seconds": 0.0, "largest": {}, "report": ""}
