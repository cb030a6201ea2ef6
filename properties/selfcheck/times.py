"""Times, hardware counters and growth as Markdown, from the JSON files that the runs wrote."""

from collections.abc import Sequence
from typing import Any

Json = dict[str, Any]


def times_lines(run: Json, others: Sequence[Json]) -> list[str]:
    """Return the table of times. ``others``: earlier runs, or those of other GPUs, with a column each."""
    note = f"; {run['note']}" if "note" in run else ""
    lines = [
        f"Device time of one call (`cumae bench`{note}), in a CUDA graph unless it says host, device or "
        "launched. Floor: a launch that changes one number, and the outputs with as many bytes of each "
        "input at most, at the rate of a large copy. Bytes that stay in the cache between calls, or need "
        "not be read, take less, as does a launch that begins early:",
        "",
    ]
    headings = [f"{one['device']}{', ' + one['note'] if 'note' in one else ''}" for one in others]
    columns = ["kernel", "size", f"time, {run['device']}", "launched", "floor", "times the floor", *headings]
    lines += [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    elsewhere = [{(one["kernel"], one["size"]): one for one in other["timings"]} for other in others]
    for timing in run["timings"]:
        rate = timing["gigabytes_per_second"]
        speed = f", {rate:,.0f} GB/s read and written" if rate else ""
        digits = 2 if timing["microseconds"] < 10 else 1
        time = f"{timing['microseconds']:.{digits}f} µs{speed}"
        launched, floor = timing.get("launched"), timing.get("floor")
        beside = f"{launched:.2f} µs" if launched else "–"
        beside += f" | {floor:.2f} µs | {timing['microseconds'] / floor:.1f}" if floor else " | – | –"
        for timings in elsewhere:
            beside += f" | {_briefly(timings.get((timing['kernel'], timing['size'])))}"
        lines.append(f"| `{timing['kernel']}` | {timing['size']} | {time} | {beside} |")
    return lines


def _briefly(timing: Json | None) -> str:
    """Return a time, and how many times the floor of its own GPU it is."""
    if timing is None:
        return "–"
    time, floor = timing["microseconds"], timing.get("floor")
    said = f"{time:.{2 if time < 10 else 1}f} µs"
    return f"{said}, {time / floor:.1f} times" if floor else said


def counters_lines(launches: list[Json]) -> list[str]:
    """Return the table of hardware counters."""
    shares = ("memory", "second-level cache", "first-level cache", "issuing cycles", "warps")
    lines = [
        "Hardware counters of launches whose time stands far above the floor (`ci/counters.py`), in percent "
        "of what the GPU can do. Under the profiler the caches are empty and the clock is low, so times are "
        "longer than above:",
        "",
        f"| call | launch | µs | {' | '.join(shares)} | registers |",
        "|---|---|---" + "|---" * (len(shares) + 1) + "|",
    ]
    for one in launches:
        told = " | ".join(f"{one[share]:.0f}" for share in shares)
        time, registers = one["ns"] / 1000, one["registers"]
        lines.append(f"| {one['call']} | `{one['kernel']}` | {time:.1f} | {told} | {registers:.0f} |")
    return lines


def growth_lines(sweeps: list[Json]) -> list[str]:
    """Return the table of how times grow."""
    lines = ["How a whole step's metadata grows, in CUDA graphs, with the line that fits the times:", ""]
    lines += [
        "| way | grows | sizes | µs at each | µs at 0 | ns for each more |",
        "|---|---|---|---|---|---|",
    ]
    for sweep in sweeps:
        sizes = "; ".join(f"{size:,}" for size in sweep["sizes"])
        times = "; ".join(f"{time:.1f}" for time in sweep["times"])
        lines.append(
            f"| {sweep['way']} | {sweep['grows']} | {sizes} | {times} | {sweep['microseconds']:.2f} "
            f"| {sweep['nanoseconds']:.4f} |"
        )
    return lines


def savings_lines(savings: list[Json]) -> list[str]:
    """Return the table of what the original pull requests save."""
    lines = ["What the original pull requests save in one step, both ways measured in the same run:", ""]
    lines += ["| report | before | after | size | measured | before, µs | after, µs | saved, µs | ratio |"]
    lines += ["|---|---|---|---|---|---|---|---|---|"]
    for one in savings:
        before, after = one["before"], one["after"]
        told = " | ".join(one[key] for key in ("report", "before_is", "after_is", "size", "clock"))
        numbers = f"{before:,.1f} | {after:,.1f} | {before - after:,.1f} | {before / after:,.1f}"
        lines.append(f"| {told} | {numbers} |")
    return lines


def rates_lines(run: Json) -> list[str]:
    """Return the table of cases a second, with those of an earlier version where they were measured."""
    versions = [run[name] for name in ("before", "now") if name in run]
    note = f"; {run['note']}" if "note" in run else ""
    lines = [
        f"Cases a second of `{run['kernel'].partition(':')[2]}` on one {run['device']} (`{run['command']}`"
        f"{note}): what the generators draw, what the kernel is called, and what a search tries "
        "without first cases, tour and traces. In brackets the share of what the generator alone draws, and "
        "where the time went: generating, kernel, oracle, all else:",
        "",
        f"| measured | {'before | ' if len(versions) > 1 else ''}now |",
        "|---" * (1 + len(versions)) + "|",
    ]
    for by in ("seeded", "drawn"):
        lines.append(_row(f"generator alone, {_BY[by]}", [f"{v['generators'][by]:,}" for v in versions]))
    lines.append(_row("calls alone, each over before the next", [f"{v['launched']:,}" for v in versions]))
    for i, one in enumerate(run["now"]["searches"]):
        name = f"{one['checks']} check{'s' * (one['checks'] != 'every')}, {_BY[one['cases']]}"
        lines.append(_row(name, [_rate(v, v["searches"][i]) for v in versions]))
    processes = f"{run['now']['processes']} processes, 3 checks, {_BY['seeded']}"
    lines.append(_row(processes, [f"{v['together']:,}" for v in versions]))
    return lines


_BY = {"seeded": "seeded cases", "drawn": "cases that Hypothesis draws"}


def _rate(version: Json, search: Json) -> str:
    share = search["rate"] / version["generators"][search["cases"]]
    spent = search["spent"]
    parts = (spent["generating"], spent["kernel"], spent["oracle"], spent["checks"])
    return f"{search['rate']:,} ({share:.0%}; {', '.join(f'{part:.0%}' for part in parts)})"


def _row(name: str, cells: list[str]) -> str:
    return f"| {name} | {' | '.join(cells)} |"
