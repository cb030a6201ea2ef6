"""The figures of README's first screen as Markdown: three numbers, and the released engines."""

from typing import Any

from cumae.properties.faults.known_bugs import ELSEWHERE

Json = dict[str, Any]


def three_figures(results: Json) -> str:
    """Return the table of bugs found, false positives and mutants, each with its command."""
    rows = (
        _bugs(results["cpu-bugs"], results["gpu-bugs"]),
        _false_positives([results["cpu-false-alarms"], results["gpu-false-alarms"]]),
        _mutants(results["cpu-mutants"]),
    )
    return "\n".join(["| question | measured | command |", "|---|---|---|", *rows])


def _bugs(on_cpu: Json, on_gpu: Json) -> str:
    bugs = on_cpu["bugs"]
    found = sum(bug["check"] is not None for bug in bugs)
    there = {bug["report"] for bug in on_gpu["bugs"] if bug["check"]}
    more = sum(bug["outcome"] in ELSEWHERE and bug["report"] in there for bug in bugs)
    said = (
        f"{found + more} of {len(bugs)}, {more} of them on a GPU only; {len(on_cpu['out_of_reach'])} kinds "
    )
    said += "more are in code that no operation here computes"
    return f"| Of the bugs that engines shipped, how many does it find? | {said} | `cumae bugs` |"


def _false_positives(runs: list[Json]) -> str:
    cases = sum(run["cases"] for run in runs)
    said = f"{sum(run['accusations'] for run in runs)} times in {cases:,} cases"
    return f"| How often does it fail a correct implementation? | {said} | `ci/false_alarms.py` |"


def _mutants(record: Json) -> str:
    runs, earlier = record["kernels"], len(record.get("earlier", ()))
    keys = ("judged", "killed", "equivalent", "equal on the small domain", "survived")
    judged, killed, same, equal, survived = (sum(run.get(key, 0) for run in runs) for key in keys)
    said = f"{killed:,} found, {survived} missed, {same + equal:,} without effect on a small domain, "
    said += f"of {judged:,}" + (f"; {earlier} kernels as they were before a change" if earlier else "")
    return f"| How many faults injected into its own kernels does it find? | {said} | `cumae mutate` |"


def engines_table(run: Json) -> str:
    """Return the table of released engines: functions run, those that agree, and those that do not."""
    statuses: dict[str, list[str]] = {engine: [] for engine in run["releases"]}
    for one in run["functions"]:
        statuses[one["engine"]].append(one["status"])
    lines = [
        "| release | functions run | agree | disagree, in the findings | disagree, new |",
        "|---|---|---|---|---|",
    ]
    for engine, found in sorted(statuses.items(), key=lambda item: -len(item[1])):
        agree, known = found.count("agrees"), found.count("known")
        cells = (len(found), agree, known, len(found) - agree - known)
        file = run["releases"][engine].split("-cp")[0].split("-py")[0]
        version = file.partition("-")[2] or "from its repository"
        lines.append(f"| `{engine}` {version} | {' | '.join(map(str, cells))} |")
    return "\n".join(lines)
