"""One record of the faults planted in released kernels, from the records of several runs."""

from collections.abc import Mapping, Sequence
from typing import Any

Json = dict[str, Any]
AGREES = ("agrees", "known")
_MACHINE = ("device", "python", "torch", "triton", "numpy")


def joined(runs: Sequence[Json], reasons: Mapping[tuple[str, str, str], str]) -> Json:
    """Return the counts of each kernel, found and tried, and the faults that survived.

    ``runs``: records of ``ci/engine_mutants.py``; of a fault that several runs tried, the last one counts.
    ``reasons``: why a fault survives, by engine, kernel and difference; "" for one that has none.
    """
    latest: dict[tuple[str, str], dict[tuple[int, str], tuple[int, Json]]] = {}
    for number, run in enumerate(runs):
        for one in run["mutants"]:
            of_kernel = latest.setdefault((one["engine"], one["kernel"]), {})
            of_kernel[one["line"], one["diff"]] = (number, one)
    kernels, survivors = list[Json](), list[Json]()
    for (engine, kernel), tried in sorted(latest.items()):
        agreed = [one for _, (_, one) in sorted(tried.items()) if one["status"] in AGREES]
        last = max(number for number, _ in tried.values())
        counts = {"found": len(tried) - len(agreed), "tried": len(tried)}
        kernels.append({"engine": engine, "kernel": kernel, "last_run": last, **counts})
        for one in agreed:
            kept = {name: one[name] for name in ("engine", "kernel", "line", "operator", "diff")}
            survivors.append({**kept, "reason": reasons.get((engine, kernel, one["diff"]), "")})
    said = [{**{name: run[name] for name in _MACHINE}, "command": _without_folders(run)} for run in runs]
    return {"runs": said, "kernels": kernels, "survivors": survivors}


def reasons_in(record: Json) -> dict[tuple[str, str, str], str]:
    """Return the reasons of a record, by engine, kernel and difference."""
    return {(one["engine"], one["kernel"], one["diff"]): one["reason"] for one in record["survivors"]}


def _without_folders(run: Json) -> str:
    """Return the arguments of a run; of each path, the last name alone."""
    words = (word.partition("=") for word in run["command"].split())
    names = ((name.rpartition("/")[2], equals, place.rpartition("/")[2]) for name, equals, place in words)
    return " ".join("".join(parts) for parts in names)
