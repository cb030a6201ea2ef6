"""Implementations known to be correct, held to many cases: whatever accuses one of them is itself wrong."""

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from typing import Any

from cumae.fixtures.correct import CORRECT
from cumae.properties.cases.domain import Domain
from cumae.properties.operations import OPERATIONS
from cumae.properties.operations.binding import Binding, binding_of
from cumae.properties.operations.targets import load_function
from cumae.properties.results.explain import explain
from cumae.properties.running.device import current, prepare
from cumae.properties.search.budget import Budget
from cumae.properties.search.first_cases import fixture_cases
from cumae.properties.search.loop import search


@dataclass(frozen=True, slots=True)
class Innocent:
    """A correct implementation: one of the fixtures in plain torch, or a kernel shipped here."""

    target: str
    operation: str
    dialect: str
    promises: Mapping[str, Any]

    def binding(self) -> Binding:
        """Return the function bound by name."""
        return binding_of(load_function(self.target), self.operation, self.dialect, Domain(**self.promises))


@dataclass(slots=True)
class Tried:
    """What became of an innocent: cases, comparisons, and the report of each accusation."""

    target: str
    operation: str
    dialect: str
    checks: tuple[str, ...]
    cases: int
    comparisons: int
    seconds: float
    accusations: list[str]

    def add(self, other: "Tried") -> None:
        """Count what another process tried."""
        self.cases += other.cases
        self.comparisons += other.comparisons
        self.seconds += other.seconds
        self.accusations += other.accusations


def innocents() -> list[Innocent]:
    """Return every correct implementation there is."""
    fixtures = [Innocent(c.target, c.operation, c.dialect, c.promises) for c in CORRECT]
    shipped = [Innocent(kernel, o.name, "cumae", {}) for o in OPERATIONS.values() for kernel in o.kernels]
    return fixtures + shipped


def try_innocent(
    innocent: Innocent, cases: int, seed: int = 0, checks: Sequence[str] | None = None, volume: int = 50
) -> Tried:
    """Hold an innocent to its fixtures, where the seed is 0, and to drawn and seeded cases.

    ``checks``: only these, else all that fit the function. ``volume``: the share of seeded cases, in
    percent.
    """
    binding = innocent.binding()
    budget = Budget(examples=cases, seed=seed, volume=volume)
    first = [] if seed else fixture_cases(binding)
    verdict = search(binding, current(), budget, checks=checks, first=first, target=innocent.target)
    return Tried(
        innocent.target,
        innocent.operation,
        innocent.dialect,
        verdict.checks,
        verdict.cases,
        verdict.comparisons,
        verdict.seconds,
        [] if verdict.ok else [explain(verdict)],
    )


def try_all(
    cases: int,
    device: str,
    jobs: int,
    shards: int = 1,
    seed: int = 0,
    checks: Sequence[str] | None = None,
    volume: int = 50,
    seconds: float = float("inf"),
) -> Iterator[Tried]:
    """Yield, as they are done, the innocents' ``shards`` of about ``cases / shards`` cases, in processes.

    After ``seconds`` no further one is begun.
    """
    began, each = time.monotonic(), -(-cases // shards)
    pool = ProcessPoolExecutor(jobs, get_context("spawn"), _prepare, (device,))
    with pool:
        tasks = [
            pool.submit(try_innocent, innocent, each, seed * shards + shard, checks, volume)
            for shard in range(shards)
            for innocent in innocents()
        ]
        for done in as_completed(tasks):
            if not done.cancelled():
                yield done.result()
            if time.monotonic() - began > seconds:
                for task in tasks:
                    task.cancel()


def added_up(all_tried: Sequence[Tried]) -> list[dict[str, Any]]:
    """Return the sum for each innocent, in the order of their names, as plain data."""
    total: dict[str, Tried] = {}
    for tried in sorted(all_tried, key=lambda tried: tried.target):
        if tried.target in total:
            total[tried.target].add(tried)
        else:
            total[tried.target] = tried
    return [asdict(tried) for tried in total.values()]


def _prepare(device: str) -> None:
    """Make a new process ready: one core each."""
    prepare(device)
    import torch

    torch.set_num_threads(1)
