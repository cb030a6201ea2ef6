"""Running a trace on a system under test, one step after the other."""

from collections.abc import Sequence

from cumae.oracle import Case, Trace
from cumae.properties.operations.binding import Binding
from cumae.properties.results.verdict import Finding
from cumae.properties.running.device import Device
from cumae.properties.running.observation import KernelRaised
from cumae.properties.search.findings import finding_of_error
from cumae.properties.state.graphs import GraphSystem, SyncSystem
from cumae.properties.state.system import System

SYSTEMS: dict[str, type[System]] = {system.check: system for system in (System, GraphSystem, SyncSystem)}
"""The checks that look at traces too, and what runs their steps."""


def traced_checks(binding: Binding, checks: Sequence[str]) -> list[str]:
    """Return those of the checks that have something to see in a trace of a function."""
    kept = bool(binding.outputs) or binding.keeps_state
    traced = [check for check in checks if check in SYSTEMS and kept]
    # Without something kept, one call tells whether calls synchronise.
    return traced if binding.keeps_state else [check for check in traced if check != "never_synchronises"]


class TraceRun:
    """A trace being run: the steps so far and the system that they are run on."""

    def __init__(self, binding: Binding, device: Device, check: str) -> None:
        self.steps: list[Case] = []
        self._binding = binding
        self._device = device
        self._system = SYSTEMS[check](binding, device)

    def step(self, case: Case) -> Finding | None:
        """Run the next step and return what is wrong with it."""
        self.steps.append(case)
        try:
            return self._system.step(case)
        except (KernelRaised, RuntimeError) as error:
            return finding_of_error(self._system.check, error, self._device)

    @property
    def num_captured(self) -> int:
        """How many graphs were captured."""
        return self._system.num_captured if isinstance(self._system, GraphSystem) else 0

    def all(self, trace: Trace) -> Finding | None:
        """Run a trace from its first step and return what is wrong with the first wrong one.

        A trace is left at a step that is not of the engine that an instance was made for.
        """
        for case in trace.steps:
            if self._binding.why_not(case) is not None:
                continue
            if not self._system.fits(case):
                return None
            finding = self.step(case)
            if finding is not None:
                return finding
        return None

    def trace(self) -> Trace:
        """Return the steps that were run."""
        return Trace(tuple(self.steps))
