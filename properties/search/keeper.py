"""The smallest failure of a search, kept and saved as soon as it is found."""

import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from cumae.oracle import Case, Trace
from cumae.properties.cases.exclusions import left_out_by, num_leaving_out
from cumae.properties.cases.trace_reducer import is_smaller
from cumae.properties.comparing.compare import CAST
from cumae.properties.operations.binding import Binding
from cumae.properties.operations.seen import seen_by
from cumae.properties.results.failure_file import failure_file, kept, load_failure
from cumae.properties.results.verdict import Failure, Finding, Verdict, failure_of
from cumae.properties.running.device import Device
from cumae.properties.running.sanitizer import sanitizing
from cumae.properties.search.database import Shared
from cumae.properties.search.exits import Stop
from cumae.properties.search.findings import ANSWERS, device_lost
from cumae.properties.search.pace import Pace

MOST_FAILED = 64
"""The first failing cases that are remembered: a promise that leaves out the smallest may keep others."""
BRINGS_THEM = ("survives_large_ids",)
"""Checks whose finding brings its promises along: their ids and strides are not those of the case."""


@dataclass(slots=True)
class Keeper:
    """Keeps the smallest failing case or trace in the verdict, in ``save_to`` and in ``shared``."""

    binding: Binding
    device: Device
    verdict: Verdict
    pace: Pace
    save_to: Path | None = None
    shared: Shared | None = None
    began: float = field(default_factory=time.time)
    _failed: list[Case] = field(default_factory=list)
    _plain_failed: bool = False
    _seen: frozenset[str] | None = None

    @property
    def seen(self) -> frozenset[str]:
        """What the function sees, or may be made for: promises of other things do not help it."""
        if self._seen is None:
            self._seen = seen_by(self.binding)
        return self._seen

    def keep(self, finding: Finding, tried: Case | Trace) -> None:
        """Keep a failing case or trace if none is smaller. Raises ``Stop`` if the device is lost."""
        known = self.verdict.failure
        last = tried.steps[-1] if isinstance(tried, Trace) else tried
        self.failed_too(last)
        if known is None:
            self.pace.found(last)
        elif not is_smaller(tried, known.tried):
            return
        self.explain(finding, tried)
        if device_lost(self.device):
            raise Stop

    def explain(self, finding: Finding, tried: Case | Trace) -> None:
        """Keep a failing case or trace, and its finding, in place of what is known."""
        known = self.verdict.failure
        last = tried.steps[-1] if isinstance(tried, Trace) else tried
        finding = replace(
            finding,
            sanitizer=sanitizing(),
            called_with=self.binding.called_with(last, outputs=bool(finding.traceback) and last is tried),
            left_out_by=self._left_out_by(last, finding),
        )
        failure = self._saved(failure_of(finding, tried, known.found_after if known else self.verdict.cases))
        if known is not None and known.file is not None and known.file != failure.file:
            known.file.unlink(missing_ok=True)
        self.verdict.failure = failure

    def _saved(self, failure: Failure) -> Failure:
        """Return a failure with its file, and save it there and in ``shared``."""
        if self.save_to is not None:
            file = failure_file(self.save_to, self.verdict, failure.finding.check)
            if self._another_saved_smaller(file, failure.tried):
                failure = replace(failure, file=file)
            else:
                failure = kept(self.save_to, self.verdict, failure)
        if self.shared is not None:
            self.shared.keep(self.verdict, failure)
        return failure

    def failed_too(self, case: Case, *, beside: bool = False) -> None:
        """Note a failing case, smaller or not: what the report says of promises may change.

        ``beside``: it was tried for this, and is remembered although many are.
        """
        if beside or len(self._failed) < MOST_FAILED:
            self._failed.append(case)
            self._plain_failed |= not num_leaving_out(case, self.binding.domain, self.seen)
        if (known := self.verdict.failure) is not None:
            told = self._left_out_by(known.case, known.finding)
            if told != known.finding.left_out_by:
                finding = replace(known.finding, left_out_by=told)
                self.verdict.failure = self._saved(replace(known, finding=finding))

    def _left_out_by(self, case: Case, finding: Finding) -> str:
        """Return the promises that leave a case out, "" where none helps, or those that a finding brings."""
        if finding.check in BRINGS_THEM:
            return finding.left_out_by
        if finding.rule == ANSWERS:
            return ""
        if finding.cause == CAST and case.batch.num_tokens:
            return ""
        if self._plain_failed:
            return ""
        return left_out_by(case, self.binding.domain, self._failed, self.seen)

    def _another_saved_smaller(self, file: Path, tried: Case | Trace) -> bool:
        """Return whether another shard of this run has saved a smaller case of the same failure."""
        try:
            saved_at = file.stat().st_mtime
        except OSError:
            return False
        return saved_at >= self.began and is_smaller(load_failure(file).tried, tried)
