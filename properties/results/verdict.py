"""Verdicts as plain data: they hold no tensor and import no engine."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from cumae.oracle import Case, Trace
from cumae.properties.results.coverage import KernelCoverage

Status = Literal["agrees", "disagrees", "nothing compared"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One disagreement: the first differing element of an output, or a message without an element.

    ``index`` counts elements of ``output``; ``expected`` and ``actual`` are their contents as
    text; ``count`` of ``total`` elements differ. ``rule``: the broken rule.
    ``axis``: the axis that the index counts on. ``wrong``: the first differing places on that axis.
    ``cause``: the likely fault, empty if unknown. ``rows``: the table row of each request, as the function
    counts rows, if it is not the request's index. ``raised_by``: the offset added to every block id of the
    case before the call. ``sanitizer``: the one it was found under. ``called_with``: the inputs that the
    function got, as text. ``ended``: whether the case ended its process, did not return or lost the CUDA
    context. ``traceback``: the whole traceback if the function raised. ``schedule``: the program that ran at
    each turn, as text, if programs ran side by side. ``left_out_by``: the promises, each of which would leave
    the case out, as text.
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
    schedule: str = ""
    left_out_by: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """A finding, the smallest case that shows it, the number of cases until it was found, its file.

    ``trace``: the steps that lead to it if one case is not enough; ``case`` is then the last step.
    ``stopped``: why the reducer stopped early, empty if it finished. ``before``: small cases that the
    function was called on before, as steps of the failing case's engine; the last one is last. ``whole``: the
    trace that failed first, or the case with those before it, as they were before the reduction.
    """

    finding: Finding
    case: Case
    found_after: int
    file: Path | None = None
    trace: Trace | None = None
    stopped: str = ""
    before: tuple[Case, ...] = field(default=(), compare=False, repr=False)
    whole: Trace | None = field(default=None, compare=False, repr=False)

    @property
    def tried(self) -> Case | Trace:
        """The trace that shows the failure, or the single case."""
        return self.trace or self.case


def failure_of(finding: Finding, tried: Case | Trace, found_after: int, file: Path | None = None) -> Failure:
    """Return the failure of a case, or of the last step of a trace."""
    if isinstance(tried, Trace):
        return Failure(finding, tried.steps[-1], found_after, file, tried)
    return Failure(finding, tried, found_after, file)


@dataclass(slots=True, repr=False)
class Verdict:
    """The result of searching one function; it is true if ``ok`` is.

    ``cases``: distinct cases that were run; ``comparisons``: checks times cases;
    ``not_promised``: cases outside the domain; ``shapes``: cases that show each of ``shows``;
    ``several_right``: rows in which rounding decides between several right answers, of the cases that have
    at most 1,024 rows; ``hidden``: features that no case varied, because the function takes no argument for
    them; ``unpassed``: its parameters that keep a default although the dialect knows them. ``spent``:
    seconds in generating, oracle, kernel, checks and reducing. ``left_out``: cases too large
    for the interpreter, or for the time. With a time budget: ``cut``, cases stopped between checks;
    ``not_tried``, fixtures and saved failures that were not reached; ``slowest``: seconds, requests and
    tokens of a case that took much of it. ``compiled``: how many variants of kernels Triton compiled, and
    the seconds that it took. ``toured``: cases of the tour of sizes. ``largest``: the largest of
    each size among the cases that the first check compared. ``named``: the sizes that the function shows,
    which cases lie on both sides of. ``pairs``: how many pairs of values of two options were seen, of how
    many, and how many were asked for and cannot be combined.
    ``domain``: the fields of the function's domain that differ from the defaults, as text; ``promised``:
    those that were given beside the function's own. ``part``: which part of a divided search this is, such
    as ``2of4``, "" for the whole; each part has its own files.
    ``source``: the file and line of the function's ``def``, None if unknown. ``unsaved``: why
    the failure could not be saved. ``shows``: the shapes and sizes that the function's cases can show.
    ``printed``: the last lines that it printed. ``versions``: of cumae and the libraries, and the device,
    as text. ``answer``: of a dump, the values of the judged outputs by name.
    ``coverage``: of each kernel that was interpreted. ``notes``: what checks have seen that makes no
    difference to an output.
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
    unpassed: tuple[str, ...] = ()
    spent: dict[str, float] = field(default_factory=dict)
    slowest: tuple[float, int, int] = (0.0, 0, 0)
    compiled: tuple[int, float] = (0, 0.0)
    cut: int = 0
    left_out: int = 0
    not_tried: int = 0
    domain: str = ""
    promised: tuple[str, ...] = ()
    part: str = ""
    source: tuple[str, int] | None = None
    unsaved: str = ""
    shows: frozenset[str] = frozenset()
    printed: tuple[str, ...] = ()
    toured: int = 0
    largest: dict[str, int] = field(default_factory=dict)
    named: tuple[int, ...] = ()
    pairs: tuple[int, int, int] = (0, 0, 0)
    coverage: tuple[KernelCoverage, ...] = ()
    notes: tuple[str, ...] = ()
    versions: str = ""
    answer: dict[str, list[int]] = field(default_factory=dict)

    def enlarge(self, sizes: Mapping[str, int]) -> None:
        """Count the sizes of a compared case among the largest."""
        for name, size in sizes.items():
            self.largest[name] = max(size, self.largest.get(name, 0))

    @property
    def status(self) -> Status:
        """``agrees``, ``disagrees``, or ``nothing compared``, which is not a success."""
        if self.failure is not None:
            return "disagrees"
        return "agrees" if self.comparisons else "nothing compared"

    @property
    def ok(self) -> bool:
        """Return whether something was compared and everything agreed."""
        return self.status == "agrees"

    def __bool__(self) -> bool:
        return self.ok

    def __repr__(self) -> str:
        """Return one line: status, target, operation, counts, the finding and the notes."""
        counts = f"{self.cases} cases, {self.comparisons} comparisons"
        said = f"{self.status}: {self.target}, {self.operation}, {counts}"
        if self.failure is not None:
            said += f"; {self.failure.finding.check}: {self.failure.finding.message}"
        said += "".join(f"; note: {note}" for note in self.notes)
        return f"<Verdict {said}>"
