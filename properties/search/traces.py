"""Runs of traces on a system under test, step by step."""

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
"""The checks that also run on traces, and the systems that run their steps."""


def traced_checks(binding: Binding, checks: Sequence[str]) -> list[str]:
    """Return the checks that apply to traces of a function."""
    writes = bool(binding.outputs) or binding.keeps_state
    traced = [check for check in checks if check in SYSTEMS and (writes or check == System.check)]
    # For a function without state, a single call shows whether calls synchronise.
    return traced if binding.keeps_state else [check for check in traced if check != "never_synchronises"]


class TraceRun:
    """A running trace: the steps so far and the system that runs them."""

    def __init__(self, binding: Binding, device: Device, check: str) -> None:
        self.steps: list[Case] = []
        self._binding = binding
        self._device = device
        self._system = SYSTEMS[check](binding, device)

    def step(self, case: Case) -> Finding | None:
        """Run the next step and return its finding."""
        self.steps.append(case)
        try:
            return self._system.step(case)
        except (KernelRaised, RuntimeError) as error:
            return finding_of_error(self._system.check, error, self._device)

    @property
    def num_captured(self) -> int:
        """The number of captured graphs."""
        return self._system.num_captured if isinstance(self._system, GraphSystem) else 0

    def all(self, trace: Trace) -> Finding | None:
        """Run a trace from its first step and return the first finding.

        The run ends at a step that does not fit the engine for which an instance was made.
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
        """Return the steps so far as a trace."""
        return Trace(tuple(self.steps))
