"""``cumae bench``: device times of the shipped kernels."""

from dataclasses import asdict
from pathlib import Path

import click

from cumae.properties.bench.device_times import timings
from cumae.properties.commands.json_file import write_json
from cumae.properties.commands.progress import telling
from cumae.properties.running.device import prepare
from cumae.properties.running.machine import machine


def bench(file: Path | None) -> int:
    """Time every shipped kernel in a CUDA graph. Needs a GPU."""
    device = prepare("cuda")
    with telling("timing") as tell:
        found = timings(device, tell)
    for timing in found:
        rate = f"  {timing.gigabytes_per_second:7.0f} GB/s" if timing.gigabytes_per_second else ""
        click.echo(
            f"{timing.kernel:32} {timing.size:36} {timing.microseconds:9.2f} µs ± {timing.spread:.2f}{rate}"
        )
    if file is not None:
        content = {**machine(), "command": "cumae bench", "timings": [asdict(timing) for timing in found]}
        write_json(file, content)
    return 0
