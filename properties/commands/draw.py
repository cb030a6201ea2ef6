"""``cumae draw``: draw a saved failure or a plain case."""

from pathlib import Path

import click

from cumae.oracle import Case, Trace, tried_from_json
from cumae.oracle.model.case_json import read_file
from cumae.properties.results.drawing import draw as drawing
from cumae.properties.results.explain import held_lines, told
from cumae.properties.results.failure_file import load_failure
from cumae.properties.results.html import page
from cumae.properties.results.steps import draw_steps, svg_steps
from cumae.properties.results.svg import svg
from cumae.properties.results.verdict import Finding
from cumae.properties.results.writable import require_file, writing


def draw(file: Path, svg_file: Path | None, html_file: Path | None) -> int:
    """Draw a saved failure, or a plain case or trace. Marks the first wrong element. Runs no kernel."""
    tried, finding, title = _read(file)
    case = tried.steps[-1] if isinstance(tried, Trace) else tried
    for name, out in (("--svg", svg_file), ("--html", html_file)):
        if out is not None:
            require_file(name, out)
    lines = [title]
    if finding is not None:
        lines += told(case, finding)
    drawn = draw_steps(tried, finding) if isinstance(tried, Trace) else drawing(case, finding)
    report = "\n".join([*lines, "", drawn, *held_lines(case, finding)])
    click.echo(report)
    picture = svg_steps(tried, finding) if isinstance(tried, Trace) else svg(case, finding)
    if svg_file is not None:
        with writing("--svg", svg_file):
            svg_file.write_text(picture, encoding="utf-8")
        click.echo(f"written: {svg_file}")
    if html_file is not None:
        with writing("--html", html_file):
            html_file.write_text(page(title, report, picture), encoding="utf-8")
        click.echo(f"written: {html_file}")
    return 0


def _read(file: Path) -> tuple[Case | Trace, Finding | None, str]:
    """Return the case or trace in a file, the finding if it is a failure file, and a title."""
    value = read_file(file)
    if isinstance(value, dict) and {"case", "trace"} & value.keys():
        saved = load_failure(file)
        return saved.tried, saved.finding, f"{saved.target} failed {saved.operation}: {saved.finding.check}"
    return tried_from_json(value, file.name), None, file.name
