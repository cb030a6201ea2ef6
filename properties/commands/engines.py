"""``cumae engines``: the released functions of an engine against their oracles."""

from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from cumae.oracle.model.rules import require, require_choice
from cumae.properties.commands.json_file import write_measured
from cumae.properties.commands.progress import INTERRUPTED
from cumae.properties.commands.values import time_or_cases
from cumae.properties.engines.adapter import Adapter
from cumae.properties.results.counting import counted
from cumae.properties.running.device import Device, prepare
from cumae.properties.search.budget import Budget

CASES = 40
"""Cases of each function unless the command says otherwise."""
_SIZES = ("tokens in a request", "requests")
"""The sizes that a line names."""


def engines(
    name: str | None,
    at: Path | None,
    only: tuple[str, ...],
    cases: int | None,
    time_text: str | None,
    seed: int,
    device: str,
    jobs: int,
    file: Path | None,
) -> int:
    """Run the functions of the engine NAME, such as vllm, against their oracles."""
    seconds = time_or_cases(time_text, cases)
    where = prepare(device)
    roots = _roots(name, at)
    budget = Budget(examples=cases or CASES if seconds is None else None, seconds=seconds, seed=seed)
    placed = _placed(roots, only)
    console = Console()
    found = list[dict[str, Any]]()
    try:
        is_complete = _try(placed, jobs, budget, where, found, console)
    finally:  # an error of one function's search loses nothing of the others
        found.sort(key=lambda one: (one["engine"], one["file"], one["function"]))
        if file is not None and found:
            releases = {engine: root.name for engine, root in roots.items()}
            write_measured(file, releases=releases, functions=found)
    if not is_complete:
        console.print(f"interrupted: {len(found)} of {counted(len(placed), 'function')} tried")
    console.print(_totals(found))
    if not is_complete:
        return INTERRUPTED
    return int(any(one["status"] not in ("agrees", "known") for one in found))


def _placed(roots: dict[str, Path], only: tuple[str, ...]) -> list[tuple[str, str, str]]:
    """Return engine, function and root of all adapters, or of ``only`` these."""
    from cumae.properties.engines.released import engine_of

    placed = [(name, function, str(roots[name])) for name in roots for function in engine_of(name).adapters]
    for function in only:
        require_choice("--only", function, [known for _, known, _ in placed])
    return [one for one in placed if not only or one[1] in only]


def _try(
    placed: list[tuple[str, str, str]],
    jobs: int,
    budget: Budget,
    device: Device,
    found: list[dict[str, Any]],
    console: Console,
) -> bool:
    """Try the functions, print each result and add it to ``found``; return whether all were tried."""
    from cumae.properties.engines.released import all_tried

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TextColumn("{task.completed} of {task.total}  {task.fields[status]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("functions", total=len(placed), status="")
        try:
            for one in all_tried(placed, jobs, budget, device):
                found.append(one)
                place = f"{len(found):>{len(str(len(placed)))}} of {len(placed)}"
                told = [f"{place}  {_line(one)}"] + ([one["report"]] if one["status"] != "agrees" else [])
                for text in told:
                    progress.console.print(text, markup=False, highlight=False, soft_wrap=True)
                progress.update(task, advance=1, status=f"{one['function']}: {one['status']}")
        except KeyboardInterrupt:
            return False
    return True


def _roots(name: str | None, at: Path | None) -> dict[str, Path]:
    """Return where each engine's packages are."""
    from cumae.properties.engines.released import ENGINES, engine_of

    if at is not None:
        require(name is not None, "NAME", name, "be given with --at")
        require(at.exists(), "--at", str(at), "exist")
    if name is None:
        found = {engine: root for engine in ENGINES if (root := _installed(engine)) is not None}
        require(bool(found), "NAME", name, f"be given: none of {', '.join(ENGINES)} is installed")
        return found
    require_choice("NAME", name, ENGINES)
    if at is not None:
        rule = f"hold {name}: it has no file of its adapters"
        require(any(_has_file(one, at) for one in engine_of(name).adapters.values()), "--at", str(at), rule)
    root = at or _installed(name)
    if root is None:
        how = f"pip download --no-deps {engine_of(name).distribution or name}"
        raise ValueError(f"NAME = {name!r}, must be installed, or given by --at: `{how}` gets a wheel")
    return {name: root}


def _has_file(adapter: Adapter, root: Path) -> bool:
    try:
        return adapter.file_in(root).is_file()
    except ValueError:
        return False


def _installed(package: str) -> Path | None:
    """Return the folder that holds an installed package, which is not imported."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0]).parent


def _line(one: dict[str, Any]) -> str:
    """Return the result of a function in a line."""
    largest = [f"{count:,} {size}" for size, count in one["largest"].items() if size in _SIZES]
    sizes = f", largest: {', '.join(largest)}" if largest else ""
    counts = f"{one['operation']}, {counted(one['cases'], 'case')} in {one['seconds']:.0f} s{sizes}"
    return f"{one['status']:<7} {one['function']} ({one['file']}): {counts}"


def _totals(found: list[dict[str, Any]]) -> str:
    """Return how many functions agree, how many have another status, and their cases."""
    others = Counter(one["status"] for one in found if one["status"] != "agrees")
    told = [f"{len(found) - others.total()} of {counted(len(found), 'function')} agree"]
    told += [f"{count} {status}" for status, count in others.items()]
    return f"{', '.join(told)}; {counted(sum(one['cases'] for one in found), 'case')}"
