"""Details of the first wrong element: the window of its token over the keys, or its slot."""

from collections.abc import Callable, Collection

from cumae.oracle import Case, Inputs, causal_windows
from cumae.properties.operations.axes import Values, axis_named
from cumae.properties.operations.places import position_of, slot_text
from cumae.properties.results.counting import counted
from cumae.properties.results.verdict import Finding

MOST_KEYS = 60
AROUND = 4


def details(case: Case, finding: Finding | None) -> list[str]:
    """Return lines about the first wrong token: its window or its slot; none for other outputs."""
    if finding is None or finding.index < 0:
        return []
    lines = _CLOSE_UPS.get(axis_named(finding.axis).values)
    return [] if lines is None else lines(case, finding)


def is_about_windows(finding: Finding) -> bool:
    """Return whether the elements of a finding's output are windows or their bounds."""
    return _CLOSE_UPS.get(axis_named(finding.axis).values) is _window_lines


def is_about_slots(finding: Finding) -> bool:
    """Return whether the elements of a finding's output are slots, whose values ``details`` shows."""
    return _CLOSE_UPS.get(axis_named(finding.axis).values) is _slot_lines


def window_of(case: Case, token: int) -> tuple[int, int]:
    """Return the oracle's window [ks, ke) of a token."""
    answer = Inputs(case).call(causal_windows)
    return answer.ks[token], answer.ke[token]


def seen_window(case: Case, finding: Finding) -> tuple[int, int] | None:
    """Return the window with the wrong bound, or None if the actual bound is unknown."""
    values = axis_named(finding.axis).values
    if not _is_int(finding.actual):
        return None
    start, stop = window_of(case, finding.index)
    actual = int(finding.actual)
    return {"window_start": (actual, stop), "window_stop": (start, actual)}.get(values)


def _window_lines(case: Case, finding: Finding) -> list[str]:
    found = position_of(case, finding.index)
    whose = "padding" if found is None else f"request {found[0]}, position {found[1]}"
    num_rows = Inputs(case)["cu_seqlens_k"][-1]
    bounds = {"expected": window_of(case, finding.index)}
    seen = seen_window(case, finding)
    if seen is not None:
        bounds["actual"] = seen
    lines = ["", f"  keys that token {finding.index} sees ({whose}), of {num_rows} in the step:"]
    kept = _kept_keys(num_rows, [bound for window in bounds.values() for bound in window])
    for what, (start, stop) in bounds.items():
        keys = _key_line(start, stop, kept, num_rows)
        lines.append(f"    {what:<8}  {keys}  [{start}, {stop}){_outside(start, stop, num_rows)}")
    return lines


def _outside(start: int, stop: int, num_rows: int) -> str:
    return "" if 0 <= start <= stop <= num_rows else f"  not within the {counted(num_rows, 'key')}"


def _kept_keys(num_rows: int, bounds: Collection[int]) -> list[int]:
    """Return the key rows to draw: all, or those near a bound or an end of the step."""
    if num_rows <= MOST_KEYS:
        return list(range(num_rows))
    near = {bound + step for bound in (0, num_rows, *bounds) for step in range(-AROUND, AROUND)}
    return sorted(row for row in near if 0 <= row < num_rows)


def _key_line(start: int, stop: int, kept: list[int], num_rows: int) -> str:
    """Return key rows as dots, window rows as blocks in brackets, and skipped rows as a number."""
    cells, last = [], -1
    for row in [*kept, num_rows]:
        if row - last > 1:
            cells.append(f" …{row - last - 1}… ")
        if start == stop == row:
            cells.append("[]")
        elif row in (start, stop):
            cells.append("[" if row == start else "]")
        cells.append("" if row == num_rows else "█" if start <= row < stop else "·")
        last = row
    return "".join(cells)


def _slot_lines(case: Case, finding: Finding) -> list[str]:
    if not any(_is_int(value) and int(value) >= 0 for value in (finding.expected, finding.actual)):
        return []
    lines = ["", f"  slot of token {finding.index}, block:offset:"]
    for what, value in (("expected", finding.expected), ("actual", finding.actual)):
        said = (
            f"{value} = {slot_text(case, int(value), finding.raised_by)}"
            if _is_int(value) and value != "-1"
            else value
        )
        lines.append(f"    {what:<8}  {'-1, none' if value == '-1' else said}")
    return lines


def _is_int(text: str) -> bool:
    return text.removeprefix("-").isdigit()


_CLOSE_UPS: dict[Values, Callable[[Case, Finding], list[str]]] = {
    "slot": _slot_lines,
    "window": _window_lines,
    "window_start": _window_lines,
    "window_stop": _window_lines,
}
