"""A trace as a picture: its steps from top to bottom, with the finding in the last one."""

from itertools import groupby

from cumae.oracle import Case, Trace
from cumae.properties.results.canvas import WIDTH
from cumae.properties.results.counting import counted
from cumae.properties.results.drawing import draw, request_lines
from cumae.properties.results.svg import picture_of
from cumae.properties.results.verdict import Finding

MOST_DRAWN = 8
_HEADING = 30


def draw_steps(trace: Trace, finding: Finding | None = None) -> str:
    """Return the drawing of each step under its number.

    Equal steps in a row are drawn once. Of a long trace, only the last steps are drawn, and one line tells of
    the others.
    """
    before, runs = _runs(trace)
    lines = [f"  {_summary(trace, before)}"] if before else []
    for first, last in runs:
        step = trace.steps[last]
        drawn = draw(step, finding).splitlines() if last == len(trace.steps) - 1 else request_lines(step)
        lines += [f"  {_heading(trace, first, last)}", *(f"  {line}" for line in drawn)]
    return "\n".join(lines)


def svg_steps(trace: Trace, finding: Finding | None = None, *, words: bool = True) -> str:
    """Return the pictures of the steps as one SVG element, 860 pixels wide; as for ``draw_steps``."""
    before, runs = _runs(trace)
    parts = [_words(20, _summary(trace, before))] if before else []
    y = _HEADING if before else 0
    for first, last in runs:
        parts.append(_words(y + 20, _heading(trace, first, last)))
        y += _HEADING
        shown = finding if last == len(trace.steps) - 1 else None
        picture = picture_of(trace.steps[last], shown, words=words)
        parts.append(picture.element(top=y))
        y += picture.height
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" '
        f'height="{y}" role="img" aria-label="the steps of a trace, one under the other">'
    )
    ground = f'<rect width="{WIDTH}" height="{y}" class="ground"/>'
    return "\n".join([head, ground, *parts, "</svg>"]) + "\n"


def _words(y: int, words: str) -> str:
    return f'<text x="12" y="{y}">{words}</text>'


def _heading(trace: Trace, first: int, last: int) -> str:
    """Return the numbers of equal steps and what each computes."""
    step = trace.steps[last]
    requests = step.batch.requests
    idle = sum(request.query_len == 0 for request in requests)
    tokens, rows = step.batch.num_tokens, step.num_tokens_padded
    padded = f" in {rows} rows" if rows != tokens else ""
    said = f"{counted(tokens, 'token')}{padded} of {counted(len(requests), 'request')}"
    said += f", {idle} without new tokens" if idle else ""
    said += "" if step.layout.host_lens else "; the host has no lengths"
    if first == last:
        return f"step {last + 1} of {len(trace.steps)}: {said}"
    return f"steps {first + 1} to {last + 1} of {len(trace.steps)}, all alike: {said}"


def _summary(trace: Trace, count: int) -> str:
    """Return one line on the first steps of a trace."""
    steps = trace.steps[:count]
    tokens = [step.batch.num_tokens for step in steps]
    requests = max(len(step.batch.requests) for step in steps)
    said = f"{min(tokens)} to {counted(max(tokens), 'token')} of up to {counted(requests, 'request')}"
    return f"steps 1 to {count} of {len(trace.steps)}, not drawn: {said}"


def _runs(trace: Trace) -> tuple[int, list[tuple[int, int]]]:
    """Return the number of steps that are not drawn, and the first and last of equal steps in a row."""
    runs: list[tuple[int, int]] = []
    for _, run in groupby(enumerate(trace.steps), key=_step):
        numbers = [k for k, _ in run]
        runs.append((numbers[0], numbers[-1]))
    shown = runs[-MOST_DRAWN:]
    return shown[0][0], shown


def _step(numbered: tuple[int, Case]) -> Case:
    return numbered[1]
