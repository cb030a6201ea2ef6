"""What a run found, as plain data: verdicts hold no tensor and import no engine."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from cumae.oracle import Case, Trace

Status = Literal["agrees", "disagrees", "nothing compared"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One disagreement: the first differing element of an output, or a message where there is none.

    ``index`` counts elements of ``output``; ``expected`` and ``actual`` are their contents as
    text; ``count`` of ``total`` elements differ. ``rule``: the sentence that is broken.
    ``axis``: what the index counts. ``wrong``: the first places that differ, on that axis.
    ``cause``: a guess at the fault, empty where none can be told. ``rows``: the table row of each
    request, as the function counts rows, where it is not the request's index. ``raised_by``: what
    was added to every block id of the case before the call. ``sanitizer``: under which it was found.
    ``called_with``: the host numbers and texts that the function got, as text. ``ended``: whether the case
    ended its process, did not return or made the CUDA context useless. ``traceback``: of what the function
    raised, whole.
    """

    check: str
    message: str
    rule: str
    output: str = ""
    index: int = -1
    expected: str = ""
    actual: str = ""
    count: int = 0
    total: int = 0
    axis: str = ""
    wrong: tuple[int, ...] = ()
    cause: str = ""
    rows: tuple[int, ...] = ()
    raised_by: int = 0
    sanitizer: str = ""
    called_with: str = ""
    ended: bool = False
    traceback: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """A finding, the smallest case that shows it, how many cases that took, and where it is saved.

    ``trace``: the steps that lead to it where one case does not; ``case`` is then the last of them.
    ``stopped``: what kept the reducer from looking for smaller ones, empty where it found none.
    """

    finding: Finding
    case: Case
    found_after: int
    file: Path | None = None
    trace: Trace | None = None
    stopped: str = ""

    @property
    def tried(self) -> Case | Trace:
        """What shows the failure: the trace, or the case alone."""
        return self.trace or self.case


def failure_of(finding: Finding, tried: Case | Trace, found_after: int, file: Path | None = None) -> Failure:
    """Return the failure of a case, or of a trace at its last step."""
    if isinstance(tried, Trace):
        return Failure(finding, tried.steps[-1], found_after, file, tried)
    return Failure(finding, tried, found_after, file)


@dataclass(slots=True, repr=False)
class Verdict:
    """What a search of one function found; it is true where ``ok`` is.

    ``cases``: distinct cases that were run; ``comparisons``: checks times cases;
    ``not_promised``: cases outside the domain; ``shapes``: cases that show each named shape;
    ``several_right``: rows of these cases in which rounding decides between several right answers;
    ``hidden``: features of the operation that no case varied, as the function names nothing that shows them.
    ``spent``: seconds in generating, oracle, kernel, checks and reducing. Of a budget of time: ``cut``, cases
    that were stopped between checks; ``left_out``, cases that would have taken longer; ``not_tried``, first
    ones for which no time was left; ``slowest``: seconds, requests and tokens of a case that took much of it.
    ``domain``: in which fields the function's domain is its own, as text. ``unsaved``: why what was found
    could not be saved.
    """

    target: str
    operation: str
    dialect: str
    checks: tuple[str, ...]
    cases: int = 0
    comparisons: int = 0
    not_promised: int = 0
    several_right: int = 0
    seconds: float = 0.0
    shapes: dict[str, int] = field(default_factory=dict)
    failure: Failure | None = None
    hidden: tuple[str, ...] = ()
    spent: dict[str, float] = field(default_factory=dict)
    slowest: tuple[float, int, int] = (0.0, 0, 0)
    cut: int = 0
    left_out: int = 0
    not_tried: int = 0
    domain: str = ""
    unsaved: str = ""

    @property
    def status(self) -> Status:
        """``agrees``, ``disagrees``, or ``nothing compared``, which is no success either."""
        if self.failure is not None:
            return "disagrees"
        return "agrees" if self.comparisons else "nothing compared"

    @property
    def ok(self) -> bool:
        """Whether something was compared and everything agreed."""
        return self.status == "agrees"

    def __bool__(self) -> bool:
        return self.ok

    def __repr__(self) -> str:
        """Return one line: status, target, operation, counts, and what was found."""
        counts = f"{self.cases} cases, {self.comparisons} comparisons"
        said = f"{self.status}: {self.target}, {self.operation}, {counts}"
        if self.failure is not None:
            said += f"; {self.failure.finding.check}: {self.failure.finding.message}"
        return f"<Verdict {said}>"
