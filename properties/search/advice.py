"""The lines of a report beside the difference: inputs of the failing case, and promises that leave it out."""

from dataclasses import dataclass, field, replace

from cumae.oracle import Case, Trace
from cumae.properties.cases.exclusions import left_out_by, num_leaving_out
from cumae.properties.cases.narrower import REFUSES
from cumae.properties.comparing.compare import CAST
from cumae.properties.operations.binding import Binding
from cumae.properties.operations.seen import seen_by
from cumae.properties.results.verdict import Finding
from cumae.properties.running.sanitizer import sanitizing
from cumae.properties.search.findings import ANSWERS

MOST_FAILED = 64
"""The first failing cases that are remembered: a promise that leaves out the smallest may keep others."""
BRINGS_THEM = ("survives_large_ids",)
"""Checks whose finding brings its promises along: their ids and strides are not those of the case."""


@dataclass(slots=True)
class Advice:
    """The failing cases of a function so far, ``failed``, and the promises that would leave them out."""

    binding: Binding
    failed: list[Case] = field(default_factory=list)
    _broken_plainly: set[str] = field(default_factory=set)
    _seen: frozenset[str] | None = None

    def seen(self, finding: Finding) -> frozenset[str]:
        """Return what the function sees of a case, may be made for, or did; no other promise helps it."""
        if self._seen is None:
            self._seen = seen_by(self.binding)
        return self._seen | {REFUSES} if finding.traceback else self._seen

    def note(self, case: Case, finding: Finding, *, beside: bool = False) -> None:
        """Note a failing case: what is said of promises may change.

        If no promise leaves it out, only one of a kind of request may help against what is found there.
        ``beside``: it was tried for this, and is remembered although many are.
        """
        if beside or len(self.failed) < MOST_FAILED:
            self.failed.append(case)
            if not num_leaving_out(case, self.binding.domain, self.seen(finding) - {REFUSES}):
                self._broken_plainly.add(_reason(finding))

    def left_out_by(self, case: Case, finding: Finding) -> str:
        """Return the promises that leave a case out, "" where none helps, or those that a finding brings."""
        if finding.check in BRINGS_THEM:
            return finding.left_out_by
        if finding.rule == ANSWERS:
            return ""
        if finding.cause == CAST and case.batch.num_tokens:
            return ""
        is_plain = _reason(finding) in self._broken_plainly
        seen = self.seen(finding)
        return left_out_by(case, self.binding.domain, self.failed, seen, if_enough=is_plain)

    def told(self, finding: Finding, tried: Case | Trace) -> Finding:
        """Return the finding on a case or trace with the inputs and promises that its report names."""
        last = tried.steps[-1] if isinstance(tried, Trace) else tried
        return replace(
            finding,
            sanitizer=sanitizing(),
            called_with=self.binding.called_with(last, outputs=bool(finding.traceback) and last is tried),
            left_out_by=self.left_out_by(last, finding),
        )


def _reason(finding: Finding) -> str:
    """Return what findings of one reason share: the rule, and of an error what raised it and where."""
    return finding.message if finding.traceback else finding.rule
