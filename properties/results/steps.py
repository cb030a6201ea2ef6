"""A trace as a picture: its steps from top to bottom, with the finding in the last one."""

from cumae.oracle import Case, Trace
from cumae.properties.results.canvas import WIDTH
from cumae.properties.results.counting import counted
from cumae.properties.results.drawing import draw, request_lines
from cumae.properties.results.svg import picture_of
from cumae.properties.results.verdict import Finding

MOST_STEPS = 8
_HEADING = 30


def draw_steps(trace: Trace, finding: Finding | None = None) -> str:
    """Return the drawing of each step under its number; a long trace shows its first and last steps."""
    last = len(trace.steps) - 1
    lines: list[str] = []
    for k, step in _shown(trace):
        if k is None or step is None:
            lines.append(f"  … {len(trace.steps) - MOST_STEPS} more steps")
            continue
        drawn = draw(step, finding).splitlines() if k == last else request_lines(step)
        lines += [f"  {_heading(trace, k)}", *(f"  {line}" for line in drawn)]
    return "\n".join(lines)


def svg_steps(trace: Trace, finding: Finding | None = None) -> str:
    """Return the pictures of the steps as one SVG element, 860 pixels wide."""
    last = len(trace.steps) - 1
    parts: list[str] = []
    y = 0
    for k, step in _shown(trace):
        words = f"… {len(trace.steps) - MOST_STEPS} more steps" if k is None else _heading(trace, k)
        parts.append(f'<text x="12" y="{y + 20}">{words}</text>')
        y += _HEADING
        if k is None or step is None:
            continue
        picture = picture_of(step, finding if k == last else None)
        parts.append(picture.element(top=y))
        y += picture.height
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" '
        f'height="{y}" role="img" aria-label="the steps of a trace, one under the other">'
    )
    ground = f'<rect width="{WIDTH}" height="{y}" class="ground"/>'
    return "\n".join([head, ground, *parts, "</svg>"]) + "\n"


def _heading(trace: Trace, k: int) -> str:
    step = trace.steps[k]
    computed = sum(request.query_len > 0 for request in step.batch.requests)
    tokens, rows = step.batch.num_tokens, step.num_tokens_padded
    padded = f" in {rows} rows" if rows != tokens else ""
    said = f"{counted(tokens, 'token')}{padded} of {counted(computed, 'request')}"
    return f"step {k + 1} of {len(trace.steps)}: {said}"


def _shown(trace: Trace) -> list[tuple[int | None, Case | None]]:
    """Return the steps to draw with their numbers; None stands for skipped steps."""
    steps: list[tuple[int | None, Case | None]] = list(enumerate(trace.steps))
    if len(steps) <= MOST_STEPS:
        return steps
    return [*steps[:2], (None, None), *steps[2 - MOST_STEPS :]]
