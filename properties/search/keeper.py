"""The smallest failure of a search, kept and saved as soon as it is found."""

import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from cumae.oracle import Case, Trace
from cumae.properties.cases.trace_reducer import is_smaller
from cumae.properties.operations.binding import Binding
from cumae.properties.results.failure_file import failure_file, load_failure, save_or_note
from cumae.properties.results.verdict import Failure, Finding, Verdict, failure_of
from cumae.properties.running.device import Device
from cumae.properties.search.advice import Advice
from cumae.properties.search.database import Shared
from cumae.properties.search.exits import Stop
from cumae.properties.search.findings import device_lost
from cumae.properties.search.pace import Pace


@dataclass(slots=True)
class Keeper:
    """Keeps the smallest failing case or trace in the verdict, in ``save_to`` and in ``shared``.

    ``whole``: the trace that failed first, or the case with those before it, as before their reduction.
    """

    binding: Binding
    device: Device
    verdict: Verdict
    pace: Pace
    save_to: Path | None = None
    shared: Shared | None = None
    began: float = field(default_factory=time.time)
    advice: Advice = field(init=False)
    whole: Trace | None = None

    def __post_init__(self) -> None:
        self.advice = Advice(self.binding)

    def keep(self, finding: Finding, tried: Case | Trace) -> None:
        """Keep a failing case or trace if none is smaller. Raises ``Stop`` if the device is lost."""
        known = self.verdict.failure
        last = tried.steps[-1] if isinstance(tried, Trace) else tried
        self.failed_too(last, finding)
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
        finding = self.advice.told(finding, tried)
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
                failure = save_or_note(self.save_to, self.verdict, failure)
        if self.shared is not None:
            self.shared.keep(self.verdict, failure)
        return failure

    def failed_too(self, case: Case, finding: Finding, *, beside: bool = False) -> None:
        """Note a failing case, smaller or not: what the report says of promises may change.

        ``beside``: it was tried for this, and is remembered although many are.
        """
        self.advice.note(case, finding, beside=beside)
        if (known := self.verdict.failure) is not None:
            told = self.advice.left_out_by(known.case, known.finding)
            if told != known.finding.left_out_by:
                told_now = replace(known.finding, left_out_by=told)
                self.verdict.failure = self._saved(replace(known, finding=told_now))

    def _another_saved_smaller(self, file: Path, tried: Case | Trace) -> bool:
        """Return whether another shard of this run has saved a smaller case of the same failure."""
        try:
            saved_at = file.stat().st_mtime
        except OSError:
            return False
        return saved_at >= self.began and is_smaller(load_failure(file).tried, tried)
