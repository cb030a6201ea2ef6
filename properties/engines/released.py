"""The adapters of all engines, each tried on released code."""

from importlib import import_module
from typing import Any

from cumae.oracle.model.rules import require_choice
from cumae.properties.engines.adapter import Engine
from cumae.properties.results.explain import explain
from cumae.properties.search.direct import check

ENGINES = ("fla", "flashinfer", "sglang", "vllm")


def engine_of(name: str) -> Engine:
    """Return an engine's adapters. Raises ``ValueError`` for an engine that has none."""
    require_choice("engine", name, ENGINES)
    engine: Engine = import_module(f"cumae.properties.engines.{name}").ENGINE
    return engine


def tried(
    engine: str, name: str, root: str, examples: int | None, seconds: float | None, seed: int, device: str
) -> dict[str, Any]:
    """Return the result of checking one released function, as plain data.

    ``root``: the wheel, the folder of packages or the checkout; ``examples``, ``seconds``: the budget,
    as in ``check``. ``report``: the disagreement in words, or why the function could not be taken.
    """
    adapter = engine_of(engine).adapters[name]
    operation = adapter.operation if isinstance(adapter.operation, str) else adapter.operation.name
    said = {"engine": engine, "function": name, "file": adapter.file, "operation": operation}
    try:
        function = adapter.function(root)
    except ValueError as error:
        nothing = {"cases": 0, "comparisons": 0, "seconds": 0.0}
        return {**said, "status": "not taken", **nothing, "report": str(error)}
    options: dict[str, Any] = {"dialect": adapter.dialect, "domain": adapter.domain, "device": device}
    options |= {"examples": examples, "seconds": seconds, "seed": seed}
    verdict = check(function, adapter.operation, save_to=None, **options)
    report = explain(verdict) if verdict.failure is not None else ""
    counts = {"cases": verdict.cases, "comparisons": verdict.comparisons, "seconds": verdict.seconds}
    return {**said, "status": verdict.status, **counts, "report": report}
