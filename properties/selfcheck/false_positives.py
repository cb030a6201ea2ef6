"""False positives: run correct implementations on many cases; every finding is a defect of cumae."""

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from typing import Any

from cumae.fixtures.correct import CORRECT
from cumae.properties.cases.domain import Domain
from cumae.properties.operations import shipped_kernels
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
    """The result of a correct implementation: cases, comparisons, and the report of each false positive."""

    target: str
    operation: str
    dialect: str
    checks: tuple[str, ...]
    cases: int
    comparisons: int
    seconds: float
    accusations: list[str]

    def add(self, other: "Tried") -> None:
        """Add the result of another process."""
        self.cases += other.cases
        self.comparisons += other.comparisons
        self.seconds += other.seconds
        self.accusations += other.accusations


def innocents() -> list[Innocent]:
    """Return every correct implementation: fixtures and shipped kernels."""
    fixtures = [Innocent(c.target, c.operation, c.dialect, c.promises) for c in CORRECT]
    return fixtures + [Innocent(kernel, name, "cumae", {}) for kernel, name in shipped_kernels()]


def try_innocent(
    innocent: Innocent, cases: int, seed: int = 0, checks: Sequence[str] | None = None, volume: int = 50
) -> Tried:
    """Run a correct implementation on drawn and seeded cases, and on its fixtures if the seed is 0.

    ``checks``: only these, by default all that fit the function. ``volume``: the share of seeded cases,
    in percent.
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
    """Run each implementation in ``shards`` of about ``cases / shards`` cases; yield results as they end.

    The shards run in ``jobs`` processes. After ``seconds`` no further shard begins.
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
    """Return the sum for each implementation, sorted by name, as plain data."""
    total: dict[str, Tried] = {}
    for tried in sorted(all_tried, key=lambda tried: tried.target):
        if tried.target in total:
            total[tried.target].add(tried)
        else:
            total[tried.target] = tried
    return [asdict(tried) for tried in total.values()]


def _prepare(device: str) -> None:
    """Set up a new process, with one torch thread."""
    prepare(device)
    import torch

    torch.set_num_threads(1)
