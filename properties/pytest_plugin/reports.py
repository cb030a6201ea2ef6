"""The reports of failed items: coloured, the finding in pytest's summary, one report for one reason."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from _pytest._code.code import ExceptionChainRepr, ReprEntryNative, ReprFileLocation, ReprTraceback
from _pytest._io import TerminalWriter

from cumae.properties.results.fitted import COPIED, fitted, terminal_width

REPORT = pytest.StashKey[dict[str, Any]]()
"""The report of a failed item, as data that an xdist worker can send."""
ATTRIBUTE = "cumae_report"
COLOURS: Mapping[str, Mapping[str, bool]] = {
    "title": {"bold": True},
    "finding": {"bold": True, "red": True},
    "expected": {"green": True},
    "actual": {"red": True},
    "command": {"cyan": True},
}


class Coloured(ExceptionChainRepr):
    """A report that pytest prints: lines with their styles, which become colours.

    To plugins it is the report of an exception with a traceback in one piece.
    """

    def __init__(self, lines: Sequence[tuple[str, str]], file: str, line: int, message: str) -> None:
        entry = ReprEntryNative([f"{text}\n" for text, _ in lines])
        traceback = ReprTraceback([entry], None, style="native")
        super().__init__([(traceback, ReprFileLocation(file, line, message), None)])
        self._lines = lines

    def toterminal(self, tw: TerminalWriter) -> None:
        """Print the lines; the terminal leaves colours out where it has none."""
        width = terminal_width(tw._file)
        for text, style in self._lines:
            shown = text if style in COPIED else fitted(text, width)
            tw.line(shown, **COLOURS.get(style, {}))


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
        file, line = told["where"]
        report.longrepr = Coloured(lines, file, line, told["line"])
