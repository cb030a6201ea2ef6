"""Measured figures as Markdown, from the JSON files that the runs wrote."""

from statistics import median
from typing import Any

from cumae.properties.faults.known_bugs import ELSEWHERE
from cumae.properties.selfcheck.fault_figures import mutants_lines, released_mutants_line
from cumae.properties.selfcheck.times import (
    counters_lines,
    growth_lines,
    rates_lines,
    savings_lines,
    times_lines,
)

Json = dict[str, Any]
COLUMNS = {
    "large": "one very large case",
    "every": "every check",
    "volume": "values, extent, bounds, garbage, determinism",
    "steps": "steps through captured graphs",
}


def tables(results: Json) -> str:
    """Return all figures; ``results``: the content of each file, by its name without the suffix."""
    parts = (
        ["## Cases and disagreements"],
        runs_lines(results["gpu-fuzz"], results["gpu-steps"]),
        [tests_line(results["gpu-tests"])],
        ["## Bugs, false positives, engines"],
        [bugs_line(results["cpu-bugs"]["bugs"], results["gpu-bugs"]["bugs"])],
        [limits_line(results["cpu-limits"])],
        [alarms_line(results["gpu-false-alarms"], results["cpu-false-alarms"])],
        [engines_line([results[name] for name in sorted(results) if "engines" in name])],
        [released_mutants_line(results["cpu-engine-mutants"])],
        [repeated_line(results["cpu-repeated"])],
        ["## Attention"],
        [attention_line(results["gpu-attention"])],
        ["## Interpreted and compiled"],
        [compiled_line(results["gpu-as-compiled"])],
        ["## Injected faults"],
        mutants_lines(results["cpu-mutants"], results["cpu-oracle-mutants"]),
        ["## What bf16 changes in a router"],
        router_lines(results["cpu-router-bf16"]),
        ["## Times"],
        times_lines(
            results["gpu-bench"], [results[name] for name in sorted(results) if "gpu-bench-" in name]
        ),
        counters_lines(results["gpu-counters"]["launches"]),
        growth_lines(results["gpu-bench"]["growth"]),
        savings_lines(results["gpu-bench"]["savings"]),
        ["## Rates of fuzzing"],
        *(rates_lines(results[name]) for name in sorted(results) if name.startswith("gpu-rates")),
        ["## Notes on the runs"],
        notes_lines(results),
    )
    return "\n\n".join("\n".join(part) for part in parts)


def runs_lines(fuzz: Json, steps: Json) -> list[str]:
    """Return the table of cases, steps and disagreements of each kernel."""
    machine = f"{fuzz['device']}, torch {fuzz['torch']}, triton {fuzz['triton']}, Python {fuzz['python']}"
    kernels: dict[str, dict[str, str]] = {}
    for verdict in fuzz["verdicts"]:
        column = "volume" if len(verdict["checks"]) == 5 else "every"
        cases = f"{verdict['cases']:,} cases"
        if verdict["cases"] == 1:
            column, cases = "large", "1 case"
        wrong = "0" if verdict["status"] == "agrees" else verdict["status"]
        kernels.setdefault(_name(verdict["kernel"]), {})[column] = f"{cases}, {wrong}"
    for run in steps["kernels"]:
        wrong = "0" if run["finding"] is None else "disagrees"
        said = f"{run['steps']:,} steps, {run['captured']} graphs, {wrong}"
        kernels.setdefault(_name(run["target"]), {})["steps"] = said
    lines = [f"On one {machine}, cases and disagreements (commands in `ci/results`):", ""]
    lines += [f"| kernel | {' | '.join(COLUMNS.values())} |", "|---" * (1 + len(COLUMNS)) + "|"]
    for name, said_of in sorted(kernels.items()):
        lines.append(f"| `{name}` | {' | '.join(said_of.get(column, '–') for column in COLUMNS)} |")
    return lines


def compiled_line(found: Json) -> str:
    """Return the line that compares interpreted with compiled expressions."""
    same, total = found["same"], found["expressions"] - found["neither runs"]
    machine = f"{found['device']}, triton {found['triton']}"
    kinds = dict.fromkeys(other.replace(", scalars:", ":") for other in found["others"])
    others = f". The others, of blocks or of scalars: {'; '.join(kinds)}" if kinds else ""
    return (
        f"Expressions that Triton's interpreter, as cumae runs it, calculates as compiled code does, with "
        f"the same type and bits (`ci/as_compiled.py`, {machine}): {same:,} of {total:,} "
        f"that one of them runs{others}."
    )


def bugs_line(bugs: list[Json], on_gpu: list[Json]) -> str:
    """Return the line of the known bugs: number found, time to find them, size of the minimal cases."""
    caught = [bug for bug in bugs if bug["check"]]
    seconds = sorted(bug["seconds"] for bug in caught)
    there = {bug["report"] for bug in on_gpu if bug["check"]}
    elsewhere = sum(bug["outcome"] in ELSEWHERE and bug["report"] in there for bug in bugs)
    requests = max(bug["minimal"]["requests"] for bug in caught)
    said = f"{len(caught)} of {len(bugs)} found, {elsewhere} more on the GPU"
    said += f"; median {median(seconds):.2f} s, slowest {seconds[-1]:.1f} s"
    return f"Known bugs (`cumae bugs`, on a CPU): {said}, minimal cases of {requests} requests or fewer."


def limits_line(limits: Json) -> str:
    """Return the line of the functions that are wrong beyond a limit, and how many of each kind are found."""
    kinds = limits["found_of_kind"]
    found, tried = (sum(counts[i] for counts in kinds.values()) for i in (0, 1))
    of_kinds = ", ".join(f"{name} {of[0]} of {of[1]}" for name, of in kinds.items())
    said = f"{found} of {tried} found by a search of 200 cases: {of_kinds}"
    return f"Functions that are wrong beyond a limit only (`ci/limits.py`, on a CPU): {said}."


def alarms_line(on_gpu: Json, on_cpu: Json) -> str:
    """Return the line of the false positives on correct implementations."""
    tried = (
        f"{alarms['accusations']} in {alarms['cases']:,} cases of {len(alarms['implementations'])} correct "
        f"implementations on {where} ({_checks_of(alarms)})"
        for alarms, where in ((on_gpu, "the same GPU"), (on_cpu, "a CPU"))
    )
    return f"False alarms (`ci/false_alarms.py`): {', '.join(tried)}."


def _checks_of(alarms: Json) -> str:
    """Return the checks that ran: their names if somebody chose a few."""
    names = sorted({check for one in alarms["implementations"] for check in one["checks"]})
    chosen = "--check" in alarms["command"]
    return " and ".join(f"`{name}`" for name in names) if chosen else "every check"


def _release(file: str) -> str:
    """Return the distribution and version of a wheel; a checkout has neither."""
    return file.split("-cp")[0].split("-py")[0] + (
        "" if "-" in file else " of the commits that its adapters name"
    )


def engines_line(runs: list[Json]) -> str:
    """Return the line of the released functions that agreed in each run, or disagree as is known."""
    said = []
    for run in runs:
        found = run["functions"]
        agreed, known = (sum(one["status"] == status for one in found) for status in ("agrees", "known"))
        where = "a CPU" if run["device"].startswith("CPU") else f"an {run['device']}"
        besides = f" and {known} more as known" if known else ""
        cases = sum(one["cases"] for one in found)
        counts = f"{agreed} of {len(found)}{besides} of {len(run['releases'])} engines"
        said.append(f"{counts} on {where} with Triton {run['triton']}, {cases:,} cases")
    newest = max(runs, key=lambda run: len(run["releases"]))
    releases = ", ".join(_release(file) for file in newest["releases"].values())
    what = f"Adapters of released functions that agree (`ci/engines`, every check; {releases})"
    return f"{what}: {'. '.join(said)}. Disagreements stand in [FINDINGS.md](../../FINDINGS.md)."


def repeated_line(run: Json) -> str:
    """Return the line of repeated runs with different seeds."""
    said = f"{run['flakes']} disagreed, in {run['cases']:,} cases and {run['comparisons']:,} comparisons"
    what = f"Runs of `cumae fuzz` with a seed each (`ci/repeated.py`, on a CPU): {run['runs']}"
    return f"{what}, of which {said}."


def attention_line(run: Json) -> str:
    """Return the line of the error of attention through the kernels against dense attention."""
    sizes = (f"{one['requests']} requests of up to {one['longest_context']:,}" for one in run["cases"])
    noticed = sum(bool(routes) for routes in run["planted"].values())
    worst, planted = run["worst_error_over_bound"], len(run["planted"])
    return (
        f"Attention through the kernels (`ci/attention.py`, same GPU): {run['rows']:,} rows of "
        f"{' and '.join(sizes)} cached tokens, {len(run['faults'])} wrong, error at most {worst:.0e} of the "
        f"bound; of faults planted in {planted} operations, one each, it noticed {noticed}."
    )


def router_lines(report: Json) -> list[str]:
    """Return the table of a router's rows that bf16 changes."""
    found = {(one["inputs"], one["in_bf16"]): one for one in report["results"]}
    stored = list(dict.fromkeys(one["in_bf16"] for one in report["results"]))
    lines = [
        "Rows for which a router of 256 experts, top 8, selects others if logits or biases are in bf16",
        f"(`{report['command']}`, exact arithmetic). Margin: the gap between the last choice",
        "selected and the next, median of the rows that bf16 logits change, and of all.",
        "",
        f"| inputs | {' | '.join(f'{name} in bf16' for name in stored)} | margin, changed | all |",
        "|---|" + "---|" * (len(stored) + 2),
    ]
    for inputs in dict.fromkeys(one["inputs"] for one in report["results"]):
        shares = (
            found[inputs, name]["rows_with_other_experts"] / found[inputs, name]["rows"] for name in stored
        )
        logits = found[inputs, stored[0]]
        kept, num_groups = logits["shape"][2], logits["shape"][1]
        groups = f"{kept} of {num_groups} groups" if num_groups > 1 else "no groups"
        margins = (logits[name]["median"] for name in ("margin_of_rows_changed", "margin_of_all_rows"))
        cells = [f"{100 * share:.2f} %" for share in shares] + [f"{margin:.1e}" for margin in margins]
        lines.append(f"| {inputs}, {groups} | {' | '.join(cells)} |")
    return lines


def tests_line(tests: Json) -> str:
    """Return the line of the tests on the GPU."""
    passed, skipped = (sum(run[name] for run in tests["runs"]) for name in ("passed", "skipped"))
    failed = sum(len(run["failed"]) for run in tests["runs"])
    said = f"{passed:,} passed, {skipped} skipped, {failed} failed"
    return f"Tests on the same GPU (commands in [gpu-tests.json](gpu-tests.json)): {said}."


def notes_lines(results: Json) -> list[str]:
    """Return how runs were put together, for each file that says so beside its figures."""
    lines = []
    for name, content in sorted(results.items()):
        if name.startswith(("gpu-bench-", "gpu-rates")):  # their notes stand at their tables
            continue
        runs = content["runs"] if name == "gpu-tests" else ()
        if notes := [run["note"] for run in (content, *runs) if "note" in run]:
            lines.append(f"- [{name}.json]({name}.json): {'; '.join(notes)}.")
    return lines


def _name(target: str) -> str:
    return target.partition(":")[2]
