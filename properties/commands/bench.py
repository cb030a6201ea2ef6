"""``cumae bench``: device times of a function beside the shipped kernels, or of all of these."""

from dataclasses import asdict
from pathlib import Path

import click

from cumae.properties.bench.device_times import WrongResult, timings, timings_of
from cumae.properties.bench.growth import Growth, growth
from cumae.properties.bench.plot import plot
from cumae.properties.bench.savings import Saving, savings
from cumae.properties.commands.json_file import write_json
from cumae.properties.commands.progress import telling
from cumae.properties.operations.binding import binding_of
from cumae.properties.operations.targets import load_function
from cumae.properties.results.writable import require_file, writing
from cumae.properties.running.device import prepare
from cumae.properties.running.machine import machine


def bench(
    target: str | None, operation: str | None, dialect: str, picture: Path | None, file: Path | None
) -> int:
    """Time TARGET, or every shipped kernel, in CUDA graphs. Needs a GPU."""
    if picture is not None:
        require_file("--svg", picture)
    device = prepare("cuda")
    saved: list[Saving] = []
    grown: list[Growth] = []
    with telling("timing") as tell:
        try:
            if target is None:
                found = timings(device, tell)
                grown = growth(device, tell)
                saved = savings(device, tell)
            else:
                found = timings_of(binding_of(load_function(target), operation, dialect), device, tell)
        except WrongResult as wrong:
            click.echo(f"not timed, because wrong: {wrong}")
            return 1
    for timing in found:
        rate = f"  {timing.gigabytes_per_second:7.0f} GB/s" if timing.gigabytes_per_second else ""
        beside = f"  launched {timing.launched:9.2f}" if timing.launched else ""
        if timing.floor:
            beside += f"  floor {timing.floor:8.2f}, {timing.microseconds / timing.floor:5.1f} times"
        time = f"{timing.microseconds:9.2f} µs ± {timing.spread:.2f}"
        click.echo(f"{timing.kernel:32} {timing.size:36} {time}{beside}{rate}")
    for sweep in grown:
        told = f"{sweep.microseconds:.2f} µs and {sweep.nanoseconds:.4f} ns for each"
        click.echo(f"{sweep.way}, {sweep.sizes[0]:,} to {sweep.sizes[-1]:,} {sweep.grows}: {told}")
    for one in saved:
        times = f"{one.before:,.1f} → {one.after:,.1f} µs, {one.before / one.after:,.1f} times"
        click.echo(f"{one.report}, {one.size}, {one.clock}: {one.before_is} → {one.after_is}: {times}")
    if picture is not None:
        with writing("--svg", picture):
            picture.write_text(plot(found), encoding="utf-8")
    if file is not None:
        content = {
            **machine(),
            "command": f"cumae bench {target or ''}".strip(),
            "timings": [asdict(timing) for timing in found],
            **({"growth": [asdict(sweep) for sweep in grown]} if grown else {}),
            **({"savings": [asdict(saving) for saving in saved]} if saved else {}),
        }
        write_json(file, content)
    return 0
