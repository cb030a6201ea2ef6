"""A known disagreement of a released function: the case that shows it, and what to leave out beside it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cumae.properties.checks import IN_INTERPRETER_ONLY
from cumae.properties.operations.binding import Binding
from cumae.properties.results.failure_file import load_failure
from cumae.properties.running.device import Device
from cumae.properties.search.budget import Budget
from cumae.properties.search.loop import search

FINDINGS = Path(__file__).parent / "findings"


@dataclass(frozen=True, slots=True)
class Known:
    """A disagreement that was reproduced by hand and stands in FINDINGS.md.

    ``case``: the stem of its file in ``findings``; ``told``: what is wrong, in a sentence; ``without``: the
    promises of a domain in which the function agrees.
    """

    case: str
    told: str
    without: Mapping[str, Any]

    def shown(self, binding: Binding, device: Device) -> str:
        """Return what is wrong on the case now, in a line; "" if the function agrees on it.

        Where its check does not run, the line says so.
        """
        saved = load_failure(FINDINGS / f"{self.case}.json")
        if device == "cuda" and saved.finding.check in IN_INTERPRETER_ONLY:
            return f"not shown: {saved.finding.check} runs in the interpreter only"
        budget = Budget(examples=0)
        verdict = search(binding, device, budget, checks=[saved.finding.check], first=[saved.tried])
        if not verdict.comparisons:
            raise ValueError(f"case = {self.case!r}, must be one that the adapter's domain promises")
        return verdict.failure.finding.message if verdict.failure is not None else ""
