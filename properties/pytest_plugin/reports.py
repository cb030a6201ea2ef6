"""The reports of failed items: coloured, the finding in pytest's summary, one report for one reason."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pytest

REPORT = pytest.StashKey[dict[str, Any]]()
"""What a failed item tells, as data that an xdist worker can send."""
ATTRIBUTE = "cumae_report"
COLOURS: Mapping[str, Mapping[str, bool]] = {
    "title": {"bold": True},
    "finding": {"bold": True, "red": True},
    "expected": {"green": True},
    "actual": {"red": True},
    "command": {"cyan": True},
}


class Place(NamedTuple):
    """The place of a failure as pytest knows it: its message stands in the summary."""

    path: str
    lineno: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.lineno}: {self.message}"


class Coloured:
    """A report that pytest prints: lines with their styles, which become colours."""

    def __init__(self, lines: Sequence[tuple[str, str]], reprcrash: Place) -> None:
        self._lines = lines
        self.reprcrash = reprcrash

    def toterminal(self, terminal: Any) -> None:
        """Print the lines; the terminal leaves colours out where it has none."""
        for text, style in self._lines:
            terminal.line(text, **COLOURS.get(style, {}))

    def __str__(self) -> str:
        return "\n".join(text for text, _ in self._lines)


class Reporter:
    """Replaces the reports of cumae's failed items, in the process that prints them."""

    def __init__(self, *, whole: bool) -> None:
        self._whole = whole
        self._first: dict[str, str] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Give a failed item its report; a second one with the same reason refers to the first."""
        told = getattr(report, ATTRIBUTE, None)
        if told is None or not report.failed:
            return
        lines, first = told["lines"], self._first.setdefault(told["reason"], report.nodeid)
        if first != report.nodeid and not self._whole:
            lines = [
                (f"the same finding as {first} (-vv shows it whole)", "finding"),
                *((text, style) for text, style in lines if style == "command"),
            ]
        path, line = told["where"]
        place = Place(path, line, told["line"])
        report.longrepr = Coloured(lines, place)  # type: ignore[assignment]
