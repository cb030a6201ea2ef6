"""The adapters of all engines, each tried on released code."""

import signal
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from cumae.oracle.model.rules import require_choice
from cumae.properties.engines.adapter import Adapter, Engine
from cumae.properties.engines.changed import needs_stub, why_changed
from cumae.properties.operations.binding import binding_of
from cumae.properties.results.explain import explain
from cumae.properties.running.device import current, prepare
from cumae.properties.search.budget import Budget
from cumae.properties.search.child import die_with_parent
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
        return _gone(engine, name, error)
    beside = domain if known is None else domain.having(**known.without)
    binding = binding_of(function, adapter.operation, adapter.dialect, beside)
    first = first_cases(binding, binding.name, None)
    try:
        verdict = search(binding, chosen, budget, first=first, save_to=None)
    except ValueError as error:
        if not needs_stub(error):
            raise
        return {
            **_nothing(engine, name),
            "status": "changed",
            "report": _other_arguments(adapter, str(error)),
        }
    counts = {name: getattr(verdict, name) for name in ("cases", "comparisons", "seconds", "largest")}
    said = {**_nothing(engine, name), "status": verdict.status, **counts}
    if verdict.failure is not None:
        raised = bool(verdict.failure.finding.traceback)
        if raised and (told := why_changed(binding, verdict.failure.case, chosen)):
            return {**said, "status": "changed", "report": _other_arguments(adapter, told)}
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
    running: set[BaseProcess] = set()
    with ThreadPoolExecutor(num_processes) as pool:
        futures = [pool.submit(alone, *one, budget, device, running) for one in functions]
        try:
            for future in as_completed(futures):
                yield future.result()
        finally:  # if the reader is gone, nothing is tried to its end
            for future in futures:
                future.cancel()
            for process in tuple(running):
                process.kill()


def alone(
    engine: str, name: str, root: str, budget: Budget, device: str, running: set[BaseProcess] | None = None
) -> dict[str, Any]:
    """Return the result of one function from a process of its own, which it may kill.

    None is started for a file that the release does not have. ``running``: the processes that run; this one
    is added while it does.
    """
    try:
        engine_of(engine).adapters[name].file_in(root)
    except ValueError as error:
        return _gone(engine, name, error)
    context = get_context("forkserver")
    context.set_forkserver_preload(["torch"])
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(there, engine, name, root, budget, device))
    running = set() if running is None else running
    with here:
        process.start()
        there.close()
        running.add(process)
        try:
            answer = here.recv()
        except EOFError:
            answer = {
                **_nothing(engine, name),
                "status": "died",
                "report": "the function killed its process",
            }
        finally:
            process.join()
            running.discard(process)
    if isinstance(answer, Exception):
        raise answer
    result: dict[str, Any] = answer
    return result


def _send(there: Connection, *arguments: Any) -> None:
    """Send the result of a function, or the error of trying it; end when the parent does."""
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    try:
        answer: Any = tried(*arguments)
    except Exception as error:
        answer = RuntimeError("".join(traceback.format_exception(error)))
    with suppress(OSError):  # the parent is gone
        there.send(answer)


def _other_arguments(adapter: Adapter, told: str) -> str:
    """Return in words that a function does not take its adapter's arguments. ``told``: the error."""
    return f"{told}: its adapter passes the arguments of {', '.join(adapter.versions)}"


def _gone(engine: str, name: str, error: ValueError) -> dict[str, Any]:
    return {**_nothing(engine, name), "status": "gone", "report": str(error)}


def _nothing(engine: str, name: str) -> dict[str, Any]:
    """Return the record of a function of which nothing is known yet."""
    adapter = engine_of(engine).adapters[name]
    operation = adapter.operation if isinstance(adapter.operation, str) else adapter.operation.name
    said = {"engine": engine, "function": name, "file": adapter.file, "operation": operation}
    return {**said, "status": "", "cases": 0, "comparisons": 0, "seconds": 0.0, "largest": {}, "report": ""}
