"""``cumae bench``: device times of a function beside the shipped kernels, or of all of these."""

from collections.abc import Iterator
from dataclasses import asdict
from itertools import chain
from pathlib import Path

import click

from cumae.oracle.model.rules import require
from cumae.properties.bench.clock import Timing, WrongResult
from cumae.properties.bench.device_times import timings, timings_of
from cumae.properties.bench.growth import Growth, growth
from cumae.properties.bench.plot import plot
from cumae.properties.bench.savings import Saving, savings
from cumae.properties.commands.json_file import write_json
from cumae.properties.commands.progress import INTERRUPTED, telling
from cumae.properties.operations.binding import binding_of
from cumae.properties.operations.targets import load_function
from cumae.properties.results.writable import require_file, writing
from cumae.properties.running.device import Device, has_gpu, interpreting, prepare
from cumae.properties.running.machine import measured

Measured = Timing | Growth | Saving
SECTIONS = {"timings": Timing, "growth": Growth, "savings": Saving}
"""The records of each part of the JSON file."""


def bench(
    target: str | None, operation: str | None, dialect: str, picture: Path | None, file: Path | None
) -> int:
    """Time TARGET, or every shipped kernel, in CUDA graphs. Needs a GPU.

    Prints and writes the times measured so far even if a later function is wrong or raises.
    """
    if picture is not None:
        require_file("--svg", picture)
    device = _gpu()
    found: list[Measured] = []
    status, told = 0, ""
    try:
        with telling("timing") as tell:
            if target is None:
                measured: Iterator[Measured] = chain(
                    timings(device, tell), growth(device, tell), savings(device, tell)
                )
            else:
                measured = timings_of(binding_of(load_function(target), operation, dialect), device, tell)
            for one in measured:
                found.append(one)
    except WrongResult as wrong:
        status, told = 1, f"not timed, because wrong: {wrong}"
    except KeyboardInterrupt:
        status, told = INTERRUPTED, f"interrupted: {len(found)} measured"
    finally:
        for one in found:
            click.echo(_line(one))
        if found:
            _write(found, target, picture, file)
    if told:
        click.echo(told)
    return status


def _gpu() -> Device:
    """Return the device. Raises ``ValueError`` without a GPU, and if kernels are interpreted."""
    require(has_gpu(), "GPU", None, "be there: `cumae bench` times kernels on a GPU")
    require(not interpreting(), "TRITON_INTERPRET", "1", "be unset: `cumae bench` times compiled kernels")
    return prepare("cuda")


def _write(found: list[Measured], target: str | None, picture: Path | None, file: Path | None) -> None:
    if picture is not None:
        with writing("--svg", picture):
            picture.write_text(plot([one for one in found if isinstance(one, Timing)]), encoding="utf-8")
    if file is not None:
        content = measured(f"cumae bench {target or ''}".strip())
        for name, kind in SECTIONS.items():
            if listed := [asdict(one) for one in found if isinstance(one, kind)]:
                content[name] = listed
        write_json(file, content)


def _line(one: Measured) -> str:
    """Return what was measured as a line of text."""
    if isinstance(one, Growth):
        told = f"{one.microseconds:.2f} µs and {one.nanoseconds:.4f} ns for each"
        return f"{one.way}, {one.sizes[0]:,} to {one.sizes[-1]:,} {one.grows}: {told}"
    if isinstance(one, Saving):
        times = f"{one.before:,.1f} → {one.after:,.1f} µs, {one.before / one.after:,.1f} times"
        return f"{one.report}, {one.size}, {one.clock}: {one.before_is} → {one.after_is}: {times}"
    rate = f"  {one.gigabytes_per_second:7.0f} GB/s" if one.gigabytes_per_second else ""
    beside = f"  launched {one.launched:9.2f}" if one.launched else ""
    if one.floor:
        beside += f"  floor {one.floor:8.2f}, {one.microseconds / one.floor:5.1f} times"
    return f"{one.kernel:32} {one.size:36} {one.microseconds:9.2f} µs ± {one.spread:.2f}{beside}{rate}"
