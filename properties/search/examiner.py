"""The examiner of a search: run the checks on each case, and count what they compare."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from cumae.oracle import Case, Inputs, Trace, leveled
from cumae.properties.cases.pairs import Pairs
from cumae.properties.cases.shapes import largest_sizes, shapes_of
from cumae.properties.checks import Trial
from cumae.properties.checks.keeps_facts import related_cases
from cumae.properties.operations.binding import Binding
from cumae.properties.results.verdict import Finding, Verdict
from cumae.properties.running.device import Device
from cumae.properties.running.launches import Launches, TooMuchWork
from cumae.properties.running.together import calls_together
from cumae.properties.running.trial import Begins
from cumae.properties.search.budget import Budget
from cumae.properties.search.due import EVERY, SHARE, due, most_accesses
from cumae.properties.search.exits import Disagreement, Stop
from cumae.properties.search.findings import device_lost, finding_of, of_the_case_run, tampered
from cumae.properties.search.foresight import MOST_FORESEEN, Foreseen, make_first_calls
from cumae.properties.search.keeper import Keeper
from cumae.properties.search.pace import Pace
from cumae.properties.search.recent import Recent

MOST_NOTES = 4
MOST_ROWS = 1_024
"""Rows with several right answers are counted in cases of up to this many rows."""
LOOK = 256
"""Number of drawn cases between two checks that the function has not modified the suite."""


@dataclass(slots=True)
class Examiner:
    """Runs the checks on one case after the other, and holds the counts and findings so far.

    ``shares``: whether programs or threads of a launch were seen to share elements. ``at_once``: how many
    drawn cases are called before the first of them is checked. ``recent``: the last small cases; ``forms``:
    the orders and formats of pages that cases had.
    """

    binding: Binding
    device: Device
    checks: tuple[str, ...]
    keeper: Keeper
    progress: Callable[[Verdict], None] | None
    before: Callable[[str, Case | Trace], None] | None
    verdict: Verdict
    pace: Pace
    begins: Begins | None = None
    schedule: str = ""
    shapes: Counter[str] = field(default_factory=Counter)
    pairs: Pairs = field(init=False)
    forms: set[tuple[str, str]] = field(default_factory=set)
    launches: Launches = field(default_factory=Launches)
    shares: bool = False
    num_first: int = 0
    last: Case | None = None
    at_once: int = 1
    recent: Recent = field(default_factory=Recent)
    _took: dict[str, float] = field(default_factory=lambda: dict.fromkeys(EVERY, 0.0))
    _foreseen: dict[int, Foreseen] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.pairs = Pairs(self.binding.domain, self.binding.features)

    def examine(self, case: Case, *, thorough: bool = False, checks: Collection[str] | None = None) -> bool:
        """Run the checks on a case; record, save and raise on the first finding.

        ``thorough``: all checks; ``checks``: these, or the only one of the search; else the case is a drawn
        one, and those run that are due. Returns False if a launch was too much work.
        """
        foreseen = self._foreseen.pop(id(case), None)
        if foreseen is None and self.binding.why_not(case) is not None:
            self.verdict.not_promised += 1
            return True
        if self.pace.is_too_dear(case):
            self.verdict.left_out += 1
            return True
        self.verdict.cases += 1
        self.last = case
        now, drawn = self.checks, not thorough and checks is None
        if drawn:
            now = due(self.checks, self.verdict.cases)
            examples, self.launches.largest = self.pace.budget.examples, 0
            self.launches.most_accesses = most_accesses(now[0], examples) if now else inf
        elif checks is not None and len(self.checks) > 1:
            now = tuple(name for name in self.checks if name in checks)
        compared = self.verdict.comparisons
        try:
            with self.pace.at_work(case, foreseen.seconds if foreseen is not None else 0.0):
                self.look_at(case, now, thorough=thorough, drawn=drawn, foreseen=foreseen)
        except TooMuchWork:
            self.verdict.cases -= self.verdict.comparisons == compared
            return False
        finally:
            self.launches.most_accesses = inf
        self.tell()
        return True

    def tell(self) -> None:
        """Tell the growing verdict."""
        self.verdict.seconds = self.pace.elapsed()
        if self.progress is not None:
            self.progress(self.verdict)

    @property
    def clock(self) -> float:
        """The seconds after which a tour or a trace ends, because the function is slow.

        Where examples are counted, without a GPU, only those inside the function count: a slow machine, which
        generates and checks slowly, does not end a tour early.
        """
        alone = self.pace.budget.seconds is None and self.device == "cpu"
        return self.pace.timed["kernel"] if alone else self.pace.elapsed()

    @property
    def calls_together(self) -> bool:
        """Whether the first calls on several drawn cases are made together."""
        return calls_together(self.binding, self.device) and "agrees" in self.checks and not self.schedule

    def foresee(self, cases: list[Case]) -> list[Case]:
        """Make the first calls on drawn cases; return the cases to examine.

        These are all of them, but if a call loses the device only its own.
        """
        self._foreseen.clear()
        if len(cases) < 2 or not self.calls_together:
            return cases
        began = self.pace.elapsed()
        small = [c for c in cases if c.num_tokens_padded <= MOST_FORESEEN and self.binding.why_not(c) is None]
        first = self.verdict.cases + 1  # numbers as they will be when the checks run
        trials = [self._trial(case, number) for number, case in enumerate(small, start=first)]
        calls = make_first_calls(trials, self.checks, self.before)
        seconds = (self.pace.elapsed() - began) / max(1, len(trials))
        self._foreseen = {id(trial.case): Foreseen(trial, seconds, small) for trial in calls.trials}
        return cases if calls.lost_by is None else [calls.lost_by]

    def _trial(self, case: Case, number: int) -> Trial:
        given = (self.binding, case, self.device, self.begin, self.pace.goes_on, self.schedule)
        left = self.pace.seconds_left
        return Trial(*given, number=number, is_quick=self.at_once > 1, seconds_left=left)

    def look_at(
        self,
        case: Case,
        checks: tuple[str, ...],
        *,
        thorough: bool,
        drawn: bool = False,
        foreseen: Foreseen | None = None,
    ) -> None:
        """Run the checks; record, save and raise on the first finding."""
        found = self.first_finding(case, checks, drawn=drawn, foreseen=foreseen)
        if found is not None and foreseen is not None:
            found = self._alone(found, foreseen.others, checks)
        finding, case = found or (None, case)
        if finding is not None and finding.check == "keeps_facts":
            case, finding = self.told_by_values(case, finding)
        if finding is None and (thorough or self.verdict.cases % LOOK == 1):
            finding = tampered(self.checks[0])
        if finding is not None:
            self.keeper.keep(finding, case)
            raise Disagreement

    def _alone(
        self, found: tuple[Finding, Case], others: Sequence[Case], checks: tuple[str, ...]
    ) -> tuple[Finding, Case]:
        """Return what is found of a case that is called alone, or else of one that was called before it.

        That one may have written into its memory. If the time is up before, what was found stays.
        """
        if device_lost(self.device):
            return found
        finding, case = found
        try:
            for one in (case, *others):
                again = self.first_finding(one, checks)
                if again is not None:
                    return again
        except Stop:
            return found
        told = f"{finding.message}; it agrees if it is called on no other case before"
        return replace(finding, message=told), case

    def first_finding(
        self,
        case: Case,
        checks: tuple[str, ...],
        *,
        drawn: bool = False,
        foreseen: Foreseen | None = None,
    ) -> tuple[Finding, Case] | None:
        """Return the finding of the first failing check, and the case that shows it.

        On a drawn case, costly checks are left out if the first one has shown a large launch, or if they have
        taken their share of the time. ``foreseen``: the trial whose first calls were made.
        """
        self.recent.note(case)
        trial = foreseen.trial if foreseen is not None else self._trial(case, self.verdict.cases)
        trial.number, examples = self.verdict.cases, self.pace.budget.examples
        for name in checks:
            known = self.verdict
            if drawn and name != checks[0] and self.launches.largest > most_accesses(name, examples):
                continue
            if drawn and name != checks[0] and self._waits(name):
                continue
            if name != checks[0] and not self.pace.goes_on():
                known.cut += known.failure is None and self.pace.is_dear
                if known.failure is None and not self.pace.is_late():
                    return None
                raise Stop
            if self.before is not None:
                self.before(name, case)
            trial.saw_nothing, began = False, self.pace.elapsed()
            finding = finding_of(name, trial)
            if name in EVERY:
                self._took[name] += self.pace.elapsed() - began
            self.shares |= trial.shares
            if trial.note and trial.note not in known.notes and len(known.notes) < MOST_NOTES:
                known.notes = (*known.notes, trial.note)
            if known.failure is None:
                known.comparisons += not trial.saw_nothing
                if name == checks[0]:
                    self.pace.learn(case)
                    self.note(case)
            if finding is not None:
                return of_the_case_run(finding, trial, self.checks, self.again)
        return None

    def _waits(self, check: str) -> bool:
        """Whether a costly check has taken more than its share of the time so far."""
        timed = self.pace.budget.seconds is not None and check in EVERY
        return timed and self._took[check] > SHARE * self.pace.elapsed()

    def begin(self, other: Case | None, because: str, left_out_by: str) -> None:
        """Note and tell the other case of a call that begins, None if it is on the case of the check."""
        if other is not None:
            self.recent.note(other)
        if self.begins is not None:
            self.begins(other, because, left_out_by)

    def keep_whole(self) -> None:
        """Keep the failing trace, or the failing case with those before it, as it is before its reduction."""
        if (known := self.verdict.failure) is not None:
            before = self.recent.steps_before(known.case, self.binding.why_not)
            self.keeper.whole = known.trace or leveled((*before, known.case))

    def note(self, case: Case) -> None:
        """Note what a case that the first check has run on is like."""
        self.verdict.enlarge(largest_sizes(case))
        self.shapes.update(shapes_of(case, self.verdict.shows))
        self.pairs.note(case)
        heads = case.options.heads
        self.forms.add((heads.page_order, heads.head_format))
        rights = self.binding.operation.rights
        if rights is not None and case.num_tokens_padded <= MOST_ROWS:
            self.verdict.several_right += rights(Inputs(case)).count(2)

    def again(self, check: str, case: Case) -> Trial:
        """Return the trial of another case, on which the function raised during a check."""
        if self.before is not None:
            self.before(check, case)
        return Trial(self.binding, case, self.device, self.begin)

    def told_by_values(self, case: Case, finding: Finding) -> tuple[Case, Finding]:
        """Return a related case with wrong values if there is one: they are clearer than a broken fact."""
        if "agrees" in self.checks:
            for other in related_cases(case, self.binding.domain):
                found = self.first_finding(other, ("agrees",))
                if found is not None:
                    return found[1], found[0]
        return case, finding

    def left(self, budget: Budget) -> bool:
        """Return whether the budget allows more cases."""
        done = self.verdict.cases - self.num_first
        return (budget.examples is None or done < budget.examples) and not self.pace.is_late()
