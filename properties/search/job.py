"""Searches and reductions as data that can be sent to any process: functions are given by name."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import NamedTuple

from cumae.oracle import Case, Trace
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.given_promises import given_promises
from cumae.properties.operations.binding import Binding, bind, binding_of
from cumae.properties.operations.targets import load_function
from cumae.properties.results.failure_file import steps_of
from cumae.properties.results.verdict import Finding
from cumae.properties.running.device import Device
from cumae.properties.search.budget import Budget
from cumae.properties.search.profiles import LIMIT_SECONDS

RETURNS = "a valid case must not crash or hang the process"
"""The rule broken by a function that crashes, hangs or loses the CUDA context."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A search. The function, the operation and the dialect are names, resolved where the search runs.

    ``domain``: what the function promises, None for everything or for the domain of its test. ``limit``:
    seconds that a case may take in an isolated process. ``cases``: the first cases, None for saved
    failures and fixtures; ``large``: one large case instead. ``sanitizer``: that of an isolated process,
    "" for none. ``schedule``: the turns of a saved failure, "" for none. ``path``: folders that are searched
    for modules first. ``part``: which part of a divided search it is, "" for the whole. ``database``: the
    address of the failures that machines share, "" for none; ``shared``: those already fetched. ``promised``:
    more promises, each ``NAME=VALUE``, in place of those of ``domain`` or of the test.
    """

    target: str
    operation: str
    dialect: str = "cumae"
    domain: Domain | None = None
    device: Device
    budget: Budget
    limit: float = LIMIT_SECONDS
    failures: Path | None = None
    checks: tuple[str, ...] | None = None
    cases: tuple[Case | Trace, ...] | None = None
    large: bool = False
    reduce: bool = True
    sanitizer: str = ""
    schedule: str = ""
    path: tuple[str, ...] = ()
    part: str = ""
    database: str = ""
    shared: tuple[Case | Trace, ...] = ()
    promised: tuple[str, ...] = ()

    def bound(self) -> Binding:
        """Return the binding, made in this process.

        Raises ``ValueError`` for unknown names, and for a case outside the function's domain.
        """
        sys.path[:] = dict.fromkeys((*self.path, *sys.path))
        binding = binding_of(load_function(self.target), self.operation, self.dialect, self.domain)
        binding = promising(binding, self.promised)
        for case in (step for one in self.cases or () for step in steps_of(one)):
            if (reason := binding.why_not(case)) is not None:
                raise ValueError(f"case, must be within what {binding.name} promises: it has {reason}")
        return binding


def promising(binding: Binding, promised: Sequence[str]) -> Binding:
    """Return the binding of a function with more promises, each ``NAME=VALUE``, in place of its own.

    Pinned cases outside the new domain are left out. Raises ``ValueError`` for what a domain refuses.
    """
    if not promised:
        return binding
    domain = binding.domain.having(**given_promises(promised, "promise"))
    other = bind(binding.function, binding.operation, binding.dialect, domain)
    pinned = (one for one in binding.pinned if all(other.why_not(case) is None for case in steps_of(one)))
    return replace(other, pinned=tuple(pinned), promised=tuple(promised))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduction:
    """The reduction of a failing case or trace of a job; the same check must keep failing.

    ``deaths``: it ends its process, and a smaller one must too; otherwise such a candidate is left out,
    as are those ``skipped``. ``seconds``: the time limit.
    """

    job: Job
    check: str
    tried: Case | Trace
    deaths: bool
    skipped: tuple[Case | Trace, ...] = ()
    seconds: float = inf


Best = tuple[Finding, Case | Trace]
"""A finding, and the smallest case or trace known to show it."""


class Reduced(NamedTuple):
    """The result of a reduction: the number of steps, and the smallest failing candidate, if any.

    ``lost``: the finding on the candidate that lost the CUDA context.
    """

    steps: int
    best: Best | None
    lost: Finding | None
