"""The workers of pytest-xdist on GPUs: one GPU each in turn, and no more workers than memory holds."""

from collections.abc import Mapping, MutableMapping
from typing import Any

from cumae.properties.running import gpus
from cumae.properties.running.gpus import WORKER_BYTES, most_workers, told, visible_gpus, worker_number


def take_gpu(environment: MutableMapping[str, str]) -> None:
    """Show a worker of pytest-xdist only its own GPU, before torch is imported; else change nothing."""
    worker = worker_number(environment)
    visible = None if worker is None else visible_gpus(environment, gpus.gpus_here())
    if worker is not None and visible is not None:
        environment[visible.variable] = visible.of(worker)


def limit_workers(option: Any, environment: Mapping[str, str]) -> None:
    """Lower the number of workers that pytest-xdist may start to those that GPU memory holds."""
    here = gpus.gpus_here()
    visible = visible_gpus(environment, here)
    most = None if visible is None else most_workers(visible, gpus.bytes_here(here))
    if most is not None:
        option.maxprocesses = min(option.maxprocesses or most, most)


def mapping(option: Any, environment: Mapping[str, str]) -> str:
    """Return the GPU of each worker in a line, "" without workers or GPUs."""
    visible = visible_gpus(environment, gpus.gpus_here())
    num_workers = len(getattr(option, "tx", ()) or ())
    if visible is None or not num_workers:
        return ""
    most = (
        f"; at most {option.maxprocesses} workers of {WORKER_BYTES >> 30} GiB" if option.maxprocesses else ""
    )
    return told(visible, num_workers) + most
