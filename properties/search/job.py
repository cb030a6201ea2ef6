"""What is to be searched, or made smaller, as data that any process can take: functions go by their names."""

import sys
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import NamedTuple

from cumae.oracle import Case, Trace
from cumae.properties.cases.domain import Domain
from cumae.properties.operations.binding import Binding, binding_of
from cumae.properties.operations.targets import load_function
from cumae.properties.results.failure_file import steps_of
from cumae.properties.results.verdict import Finding
from cumae.properties.running.device import Device
from cumae.properties.search.budget import Budget
from cumae.properties.search.process import LIMIT_SECONDS

RETURNS = "a valid case neither ends the process nor takes for ever"
"""The rule that a function breaks which crashes, hangs or loses the CUDA context."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A search. The function, the operation and the dialect are named, and bound where the search is done.

    ``domain``: what the function promises, None for everything or what its test says. ``limit``: seconds a
    case may take in an isolated process. ``cases``: what is tried first, or None for saved failures and
    fixtures; ``large``: or one large case. ``sanitizer``: what an isolated process runs under, "" for none.
    ``path``: where modules are looked for, first of all.
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
    path: tuple[str, ...] = ()

    def bound(self) -> Binding:
        """Return the binding, made anew in this process.

        Raises ``ValueError`` for names that say nothing here, and for a case that is not promised.
        """
        sys.path[:] = dict.fromkeys((*self.path, *sys.path))
        binding = binding_of(load_function(self.target), self.operation, self.dialect, self.domain)
        for case in (step for one in self.cases or () for step in steps_of(one)):
            if (reason := binding.why_not(case)) is not None:
                raise ValueError(f"case, must be within what {binding.name} promises: it varies {reason}")
        return binding


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduction:
    """A failing case, or trace, of a job that is to be made smaller, keeping the check that fails.

    ``deaths``: it ends its process, and so must a smaller one; else one that does is left out, as are those
    ``skipped``. ``seconds``: after which no further one is tried.
    """

    job: Job
    check: str
    tried: Case | Trace
    deaths: bool
    skipped: tuple[Case | Trace, ...] = ()
    seconds: float = inf


class Reduced(NamedTuple):
    """How a reduction ended: after so many steps, with the smallest that fails, if one was found.

    ``lost``: what is found on the candidate by which the CUDA context was lost.
    """

    steps: int
    best: tuple[Finding, Case | Trace] | None
    lost: Finding | None
