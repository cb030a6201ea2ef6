"""``cumae draw``: draw a saved failure or a plain case."""

from pathlib import Path

import click

from cumae.oracle import Case, Trace, tried_from_json
from cumae.oracle.model.rules import require
from cumae.properties.commands.sources import dialect_of_dump, fixture_named, holds_tensors
from cumae.properties.operations import OPERATIONS
from cumae.properties.operations.drawn import seeded
from cumae.properties.results.answer import answer_lines
from cumae.properties.results.case_lines import case_lines
from cumae.properties.results.case_text import is_text, name_of, read_source
from cumae.properties.results.details import details, is_about_windows
from cumae.properties.results.drawing import draw as drawing
from cumae.properties.results.explain import finding_lines
from cumae.properties.results.failure_file import load_failure
from cumae.properties.results.html import page
from cumae.properties.results.steps import draw_steps, svg_steps
from cumae.properties.results.svg import svg
from cumae.properties.results.verdict import Finding
from cumae.properties.results.writable import require_file, writing


def draw(
    file: Path | None,
    operation: str | None,
    dialect: str | None,
    seed: int,
    svg_file: Path | None,
    html_file: Path | None,
) -> int:
    """Draw a saved failure, a plain case or trace, or a seeded case with its expected answer."""
    is_one = (file is None) != (operation is None)
    require(is_one, "FILE", file and str(file), "be given, or --op for a seeded case, not both")
    tried, finding, title = _read(file, dialect) if file is not None else _drawn(str(operation), seed)
    case = tried.steps[-1] if isinstance(tried, Trace) else tried
    for name, out in (("--svg", svg_file), ("--html", html_file)):
        if out is not None:
            require_file(name, out)
    lines = finding_lines(case, finding) if finding is not None else []
    held = case_lines(case, finding)
    expected = ["", *answer_lines(OPERATIONS[operation], case)] if operation is not None else []
    drawn = draw_steps(tried, finding) if isinstance(tried, Trace) else drawing(case, finding)
    click.echo("\n".join([title, *lines, "", drawn, *held, *expected]))
    if svg_file is not None:
        with writing("--svg", svg_file):
            svg_file.write_text(_picture(tried, finding), encoding="utf-8")
        click.echo(f"written: {svg_file}")
    if html_file is not None:
        with writing("--html", html_file):
            report = "\n".join([*_words(case, finding), *held, *expected]).strip("\n")
            picture = _picture(tried, finding, words=False)
            html_file.write_text(page(title, report, picture), encoding="utf-8")
        click.echo(f"written: {html_file}")
    return 0


def _words(case: Case, finding: Finding | None) -> list[str]:
    """Return what a page tells of a finding beside its picture, which shows windows, but no slots."""
    if finding is None:
        return []
    shown = [] if is_about_windows(finding) else details(case, finding)
    return [*finding_lines(case, finding, values=not shown), *shown, ""]


def _picture(tried: Case | Trace, finding: Finding | None, *, words: bool = True) -> str:
    if isinstance(tried, Trace):
        return svg_steps(tried, finding, words=words)
    return svg(tried, finding, words=words)


def _drawn(operation: str, seed: int) -> tuple[Case, None, str]:
    """Return the case of a seed and its title."""
    return seeded(OPERATIONS[operation], seed), None, f"{operation}, seed {seed}"


def _read(file: Path, dialect: str | None) -> tuple[Case | Trace, Finding | None, str]:
    """Return a case or trace, the finding if it is a failure, and a title."""
    if not is_text(file) and not file.suffix and not file.exists():
        name, fixture = fixture_named(str(file))
        require(fixture.case is not None, "FILE", name, f"be a valid batch: {fixture.reason}")
        assert fixture.case is not None
        return fixture.case, None, f"{name}: {fixture.reason}"
    if holds_tensors(file):
        return _read_dump(file, dialect_of_dump(file, dialect))
    value = read_source(file)
    if isinstance(value, dict) and {"case", "trace"} & value.keys():
        saved = load_failure(file)
        return saved.tried, saved.finding, f"{saved.target} failed {saved.operation}: {saved.finding.check}"
    return tried_from_json(value, name_of(file)), None, name_of(file)


def _read_dump(file: Path, dialect: str) -> tuple[Case, Finding | None, str]:
    """Return the case of a dump, and the first thing that is wrong in its outputs."""
    from cumae.properties.comparing.judge_dump import judge_outputs  # imports torch, which takes a second

    case, verdicts = judge_outputs(file, dialect)
    failures = [(verdict.operation, verdict.failure) for verdict in verdicts if verdict.failure is not None]
    if not failures:
        return case, None, file.name
    operation, failure = failures[0]
    return failure.case, failure.finding, f"{file} failed {operation}"
