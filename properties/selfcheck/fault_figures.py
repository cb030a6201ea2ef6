"""Faults injected into kernels, oracles and released code, as Markdown from the JSON files of the runs."""

from collections import Counter
from typing import Any

Json = dict[str, Any]


def released_mutants_line(record: Json) -> str:
    """Return the line of the faults planted in released kernels, and how many their adapters find."""
    kernels = record["kernels"]
    found, tried = (sum(one[name] for one in kernels) for name in ("found", "tried"))
    most = sum(10 * one["found"] >= 8 * one["tried"] for one in kernels)
    engines = len({one["engine"] for one in kernels})
    what = f"the first ten of each of {len(kernels)} Triton kernels of {engines} engines"
    said = f"{found} of {tried} found through adapters, on a CPU; in {most} kernels eight of ten or more"
    where = "[cpu-engine-mutants.json](cpu-engine-mutants.json)"
    return (
        f"Faults planted in released kernels (`ci/engine_mutants.py`, {what}): {said}. "
        f"Each of the others stands in {where} with its reason."
    )


def mutants_lines(kernels: Json, oracles: Json) -> list[str]:
    """Return the tables of the mutants of each operation's kernels and oracle, with their outcomes."""
    runs = kernels["kernels"]
    survivors: dict[str, Counter[str]] = {}  # by reason: functions, and how many each has
    for mutant in (mutant for run in runs for mutant in run["survivors"]):
        place = f"`{mutant['module'].rpartition('.')[2]}.{mutant['function']}`"
        survivors.setdefault(mutant["message"], Counter())[place] += 1
    earlier = ", ".join(f"`{name}`" for name in kernels.get("earlier", ()))
    earlier = f"; as they were before a change: {earlier}" if earlier else ""
    captured = sum(run["killed_by"].get("replays_in_graph", 0) for run in runs)
    told = f"{captured} were killed under graph capture, on the GPU. {_minutes(runs)} Survivors: "
    told += "; ".join(f"{why}: {_places(places)}" for why, places in survivors.items()) or "none"
    return [
        f"Faults injected into kernels, one at a time (`cumae mutate`, on a CPU{earlier}):",
        "",
        *_mutants_table("kernels of", runs),
        "",
        f"{told}.",
        "",
        "Into oracles (`cumae mutate --oracles`), noticed by their worked examples, fixtures and simulation:",
        "",
        *_mutants_table("oracle of", oracles["kernels"]),
        "",
        _minutes(oracles["kernels"]),
    ]


def _places(counts: Counter[str]) -> str:
    return ", ".join(f"{place} ({count} times)" if count > 1 else place for place, count in counts.items())


def _mutants_table(first: str, runs: list[Json]) -> list[str]:
    statuses = ("killed", "equivalent", "equal on the small domain", "survived")
    lines = [
        f"| {first} | mutants | judged | killed | same TTIR | equal on the small domain | survived |",
        "|---|---|---|---|---|---|---|",
    ]
    for run in runs:
        cells = " | ".join(str(run.get(status, 0)) for status in statuses)
        lines.append(f"| `{run['operation']}` | {run['mutants']} | {run['judged']} | {cells} |")
    total = [sum(run.get(key, 0) for run in runs) for key in ("mutants", "judged", *statuses)]
    return [*lines, f"| all | {' | '.join(map(str, total))} |"]


def _minutes(runs: list[Json]) -> str:
    minutes = sum(run["process_seconds"] for run in runs) / 60
    return f"Together {minutes:.0f} minutes of processes, on busy machines."
