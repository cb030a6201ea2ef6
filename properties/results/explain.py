"""A verdict as text: the difference, its place, the rule, a drawing, and a command that reproduces it."""

import re
from collections.abc import Sequence
from textwrap import indent
from typing import Literal, NamedTuple

from cumae.oracle import Case
from cumae.properties.results.case_lines import case_lines
from cumae.properties.results.case_text import MOST_CHARACTERS, to_text
from cumae.properties.results.counting import counted
from cumae.properties.results.drawing import draw
from cumae.properties.results.failure_file import content_of
from cumae.properties.results.marks import place_text
from cumae.properties.results.steps import draw_steps
from cumae.properties.results.verdict import Failure, Finding, Verdict

Style = Literal["", "title", "finding", "expected", "actual", "command", "copied"]


class Line(NamedTuple):
    """Lines of a report, and what they tell, so that a terminal can colour them."""

    text: str
    style: Style = ""


def explain(verdict: Verdict, *, verbose: bool = False, again: Sequence[str] | None = None) -> str:
    """Return the report of a verdict; one line if everything agreed, and what was noted besides.

    ``verbose``: with the whole traceback if the function raised. ``again``: the lines that say how to run it
    again, by default with ``cumae replay``.
    """
    return "\n".join(line.text for line in report_lines(verdict, verbose=verbose, again=again))


def report_lines(
    verdict: Verdict, *, verbose: bool = False, again: Sequence[str] | None = None
) -> list[Line]:
    """Return the lines of a report as ``explain`` joins them; the arguments are the same."""
    if verdict.failure is None:
        notes = [*verdict.notes, *unpassed_lines(verdict)]
        return [Line(summary(verdict)), *(Line(f"  {note}") for note in notes)]
    failure, finding = verdict.failure, verdict.failure.finding
    title = f"{verdict.target} disagrees with {verdict.operation}: {finding.check}"
    return [
        Line(title, "title"),
        Line(""),
        *_finding_lines(failure.case, finding),
        Line(""),
        *map(Line, _case_lines(verdict, failure, verbose=verbose)),
        *_ending_lines(verdict, failure, again),
    ]


def finding_line(finding: Finding) -> str:
    """Return a finding in one line, with the values first, because a terminal cuts the end.

    >>> finding_line(Finding("agrees", "`ke[3]` differs from the oracle", "", "ke", 3, "9", "8"))
    'actual 8, expected 9: `ke[3]` differs from the oracle'
    """
    values = f"actual {finding.actual}, expected {finding.expected}: " if finding.expected else ""
    return values + finding.message.splitlines()[0]


def _case_lines(verdict: Verdict, failure: Failure, *, verbose: bool) -> list[str]:
    """Return the drawn case, what the function was called with, what it printed, and the traceback."""
    finding = failure.finding
    heading = "smallest case found" if failure.found_after else "the case"
    if failure.trace is not None:
        heading = heading.replace("case", "trace")
        drawing = draw_steps(failure.trace, finding)
    else:
        drawing = draw(failure.case, finding)
    lines = [f"  {heading} ({_count(failure)}):", drawing]
    held = case_lines(failure.case, finding)
    held += [f"  {line}" for line in unpassed_lines(verdict)]
    lines += ["", *held] if held else []
    if verbose and finding.traceback:
        lines += ["", indent(finding.traceback, "  ")]
    if verdict.printed:
        lines += ["", *indent(printed_lines(verdict.printed), "  ").splitlines()]
    if told_slow := slow_line(verdict):
        lines += ["", f"  {told_slow}"]
    if verdict.unsaved:
        lines += ["", f"  not saved: {verdict.unsaved}"]
    return lines


def _ending_lines(verdict: Verdict, failure: Failure, again: Sequence[str] | None) -> list[Line]:
    """Return the commands that show a failure again, and the versions."""
    commands = _again(verdict, failure) if again is None else [Line(f"  {line}", "command") for line in again]
    versions = [Line(f"  versions: {verdict.versions}")] if verdict.versions else []
    return [Line(""), *commands, *versions]


def _again(verdict: Verdict, failure: Failure) -> list[Line]:
    """Return the commands that show a failure again: from its file, and from this report alone."""
    # Another process can find a function only by its name.
    can_be_found = verdict.answer or re.fullmatch(r".+:[\w.]+", verdict.target)
    target = "" if can_be_found else " --target MODULE:NAME"
    lines: list[Line] = []
    if failure.file is not None:
        lines.append(Line(f"  reproduce: cumae replay {failure.file}{target}", "command"))
        if failure.stopped:
            lines.append(Line(f"  reduce further: cumae reduce {failure.file}", "command"))
    text = text_of(verdict, failure)
    if len(text) <= MOST_CHARACTERS:
        return [*lines, Line(f"  without a file: cumae replay '{text}'{target}", "copied")]
    too_long = f"the case is too long for a line ({len(text):,} characters, at most {MOST_CHARACTERS:,})"
    kept = "keep the file" if failure.file is not None else "save it to a file"
    return [*lines, Line(f"  without a file: {too_long}: {kept}")]


def text_of(verdict: Verdict, failure: Failure, base: str = "") -> str:
    """Return a failure as text that commands take in place of a file; without traceback."""
    content = content_of(verdict, failure, base)
    for name in ("named", "code"):
        content.pop(name, None)
    content["finding"].pop("traceback", None)
    return to_text(content)


def unpassed_lines(verdict: Verdict) -> list[str]:
    """Return a line about the parameters that keep their default although the dialect knows them, if any."""
    if not verdict.unpassed:
        return []
    of = f"{'an input or output' if len(verdict.unpassed) == 1 else 'inputs or outputs'} of {verdict.dialect}"
    return [f"never passed, because of a default: {', '.join(verdict.unpassed)}, {of}"]


def printed_lines(printed: Sequence[str]) -> str:
    """Return the last lines that a function printed, under a heading."""
    return "\n  ".join(["printed at the end:", *printed])


def finding_lines(case: Case, finding: Finding, *, values: bool = True) -> list[str]:
    """Return the lines of a finding: difference, place, rule and likely cause.

    ``values``: also the expected and the actual value.
    """
    return [line.text for line in _finding_lines(case, finding, values=values)]


def _finding_lines(case: Case, finding: Finding, *, values: bool = True) -> list[Line]:
    lines = [Line(f"  {finding.message}", "finding")]
    if finding.expected and values:
        lines += [Line(f"    expected {finding.expected}", "expected")]
        lines += [Line(f"    actual   {finding.actual}", "actual")]
    place = place_text(case, finding)
    if place:
        lines.append(Line(f"    at {place}"))
    if finding.total:
        marked = len(finding.wrong)
        rest = f", the first {marked} are marked" if finding.count > marked > 0 else ""
        ending = "s" if finding.count == 1 else ""
        lines.append(Line(f"    {finding.count} of {counted(finding.total, 'element')} differ{ending}{rest}"))
    if finding.rule:
        lines.append(Line(f"  rule: {finding.rule}"))
    if finding.cause:
        lines.append(Line(f"  likely: {finding.cause}"))
    return lines


def summary(verdict: Verdict) -> str:
    """Return one line: status, counts and speed, and a case that took much of the time."""
    rate = verdict.cases / verdict.seconds if verdict.seconds else 0.0
    counts = f"{counted(verdict.cases, 'case')}, {counted(verdict.comparisons, 'comparison')}"
    counts += f", {verdict.seconds:.1f} s, {rate:.0f} cases/s"
    extra = f", {verdict.not_promised} not promised" if verdict.not_promised else ""
    slow = slow_line(verdict)
    return f"{verdict.status}: {verdict.target} ({counts}{extra})" + (f"; {slow}" if slow else "")


def slow_line(verdict: Verdict) -> str:
    """Return the slow case, the time of compiling if it was much, and the cases that the time budget cut."""
    seconds, requests, tokens = verdict.slowest
    parts = []
    if seconds:
        size = f"{requests:,} request{'s' * (requests != 1)}, {tokens:,} token{'s' * (tokens != 1)}"
        parts.append(f"one case took {seconds:.{0 if seconds >= 10 else 1}f} s: {size}")
    count, compiling = verdict.compiled
    if compiling > verdict.seconds / 5:
        saved = f"took {compiling:.0f} s, which the next run saves"
        parts.append(f"compiling {counted(count, 'variant')} {saved}")
    return "; ".join([*parts, *_left([verdict])])


def time_was_short(verdicts: list[Verdict]) -> str:
    """Return the number of verdicts with too little time, and the cases not tried; "" if there are none."""
    short = sum(bool(_left([verdict])) for verdict in verdicts)
    if not short:
        return ""
    return f"{short} of {counted(len(verdicts), 'kernel')} had too little time: {'; '.join(_left(verdicts))}"


def _left(verdicts: list[Verdict]) -> list[str]:
    """Return the cases that the time budget cut or left out."""
    reasons = {
        "cut": "stopped between checks",
        "left_out": "left out as too large",
        "not_tried": "of the fixtures and saved failures not tried",
    }
    counts = {what: sum(getattr(verdict, name) for verdict in verdicts) for name, what in reasons.items()}
    return [f"{counted(count, 'case')} {what}" for what, count in counts.items() if count]


def time_line(verdict: Verdict) -> str:
    """Return the seconds that each part took.

    >>> time_line(Verdict("f", "position_ids", "cumae", (), spent={"oracle": 0.25, "kernel": 2.0}))
    'oracle 0.2 s, kernel 2.0 s'
    """
    return ", ".join(f"{part} {seconds:.1f} s" for part, seconds in verdict.spent.items())


def _count(failure: Failure) -> str:
    requests = len(failure.case.batch.requests)
    said = counted(requests, "request")
    if failure.trace is not None:
        steps = len(failure.trace.steps)
        said = f"{counted(steps, 'step')}, {said} in the last"
    if failure.found_after:
        said += f", found after {counted(failure.found_after, 'case')}"
    if failure.stopped:
        said += f"; there may be smaller ones: {failure.stopped}"
    return said
