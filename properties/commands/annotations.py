"""Results for a CI service: annotations of GitHub, and SARIF, which code scanning reads."""

import os
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from cumae.properties.results.explain import finding_line
from cumae.properties.results.verdict import Verdict

if TYPE_CHECKING:
    from cumae.properties.lint.flaw import Flaw

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def annotation(title: str, message: str, place: tuple[str, int] | None = None) -> str:
    """Return the line by which GitHub shows an error, at a file and a line if there is a place.

    >>> annotation("cumae lint", "100 %: no\\nmask", ("a.py", 3))
    '::error file=a.py,line=3,title=cumae lint::100 %25: no%0Amask'
    """
    fields = {} if place is None else {"file": in_repository(place[0]), "line": str(place[1])}
    told = ",".join(f"{name}={_escaped(value, ':,')}" for name, value in {**fields, "title": title}.items())
    return f"::error {told}::{_escaped(message)}"


def of_verdicts(verdicts: Iterable[Verdict]) -> list[str]:
    """Return an annotation for each function that does not agree, at its ``def``."""
    return [
        annotation(f"cumae: {verdict.target} {verdict.status}", _told(verdict), verdict.source)
        for verdict in verdicts
        if not verdict.ok
    ]


def of_flaws(flaws: Iterable["Flaw"]) -> list[str]:
    """Return an annotation for each flaw of a kernel."""
    return [
        annotation(f"cumae lint: {flaw.rule}", f"{flaw.text} (in {flaw.kernel})", (flaw.file, flaw.line))
        for flaw in flaws
    ]


def sarif(flaws: Sequence["Flaw"], rules: dict[str, str]) -> dict[str, Any]:
    """Return flaws as a log of SARIF 2.1.0. ``rules``: each rule in words, by its name."""
    ids = [_identifier(rule) for rule in rules]
    driver = {
        "name": "cumae lint",
        "version": version("cumae"),
        "rules": [
            {"id": one, "name": rule, "shortDescription": {"text": text}}
            for one, (rule, text) in zip(ids, rules.items(), strict=True)
        ],
    }
    results = [
        {
            "ruleId": _identifier(flaw.rule),
            "ruleIndex": ids.index(_identifier(flaw.rule)),
            "level": "error",
            "message": {"text": f"{flaw.text} (in {flaw.kernel})"},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": _uri(flaw.file)},
                        "region": {"startLine": max(flaw.line, 1)},
                    }
                }
            ],
        }
        for flaw in flaws
    ]
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


def in_repository(file: str) -> str:
    """Return a file relative to the repository that CI has checked out, else to the working folder."""
    root, path = Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd()), Path(file).absolute()
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)


def _told(verdict: Verdict) -> str:
    if verdict.failure is None:
        return "nothing was compared, which is a failure"
    finding, file = verdict.failure.finding, verdict.failure.file
    again = f"\nreproduce: cumae replay {file}" if file is not None else ""
    told = f"{verdict.operation}, {finding.check}: {finding_line(finding)}"
    return f"{told}\nrule: {finding.rule}{again}"


def _uri(file: str) -> str:
    path = in_repository(file)
    return Path(path).as_uri() if Path(path).is_absolute() else quote(path)


def _identifier(rule: str) -> str:
    return rule.replace(" ", "-")


def _escaped(text: str, more: str = "") -> str:
    """Return text as a workflow command takes it. ``more``: characters that end a field there."""
    return "".join(f"%{ord(one):02X}" if one in f"%\r\n{more}" else one for one in text)
