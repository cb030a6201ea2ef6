"""A failing case as a file that replays anywhere."""

import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from cumae.oracle import Case, from_json, to_json
from cumae.oracle.case_json import closed, read_file
from cumae.oracle.rules import require
from cumae.properties.verdict import Failure, Verdict

VERSION = 1


@dataclass(frozen=True, slots=True)
class Saved:
    """What a failure file says: the case, and which function and check it failed."""

    case: Case
    operation: str
    dialect: str
    target: str
    check: str
    message: str


def failure_file(folder: Path, operation: str, target: str, check: str) -> Path:
    """Return the file in which a target's failure of a check is saved."""
    return folder / (re.sub(r"[^A-Za-z0-9_.]+", "-", f"{operation}-{target}-{check}") + ".json")


def save_failure(folder: Path, verdict: Verdict, failure: Failure) -> Path:
    """Write the failure and return its file; a larger one of the same target and check is replaced."""
    file = failure_file(folder, verdict.operation, verdict.target, failure.finding.check)
    folder.mkdir(parents=True, exist_ok=True)
    write_failure(file, verdict, failure)
    return file


def write_failure(file: Path, verdict: Verdict, failure: Failure) -> None:
    """Write the failure to a file, whole or not at all."""
    content = {
        "version": VERSION,
        "operation": verdict.operation,
        "dialect": verdict.dialect,
        "target": verdict.target,
        "check": failure.finding.check,
        "message": failure.finding.message,
        "case": to_json(failure.case),
    }
    partial = file.with_name(f".{file.name}.{os.getpid()}.partial")
    partial.write_text(json.dumps(content, indent=1) + "\n")
    partial.replace(file)


def saved_cases(folder: Path, operation: str, target: str, checks: Iterable[str]) -> list[Case]:
    """Return the cases on which a target has failed one of the checks before.

    Raises ``ValueError`` for a file that does not say what a failure file says.
    """
    files = [failure_file(folder, operation, target, check) for check in checks]
    return [load_failure(file).case for file in files if file.exists()]


def load_case(file: Path, target: str | None, operation: str | None, dialect: str | None) -> Saved:
    """Return a saved failure or a plain case, with the target, operation and dialect given in its place.

    Raises ``ValueError`` for a file that is neither, and for a plain case without target or operation.
    """
    content = read_file(file)
    if not (isinstance(content, dict) and "batch" in content):
        saved = load_failure(file)
        return replace(
            saved,
            target=target or saved.target,
            operation=operation or saved.operation,
            dialect=dialect or saved.dialect,
        )
    if target is None or operation is None:
        missing = "target" if target is None else "operation"
        raise ValueError(f"{file.name}.{missing} = None, must be given: the file is a case without one")
    return Saved(from_json(content, file.name), operation, dialect or "cumae", target, "", "")


def load_failure(file: Path) -> Saved:
    """Return what a failure file says. Raises ``ValueError`` naming field, value and rule."""
    path = file.name
    items = closed(
        read_file(file),
        path,
        required=("version", "operation", "dialect", "target", "check", "case"),
        optional=("message",),
    )
    version = items["version"]
    require(type(version) is int and version == VERSION, f"{path}.version", version, f"be {VERSION}")
    texts = {}
    for name in ("operation", "dialect", "target", "check", "message"):
        texts[name] = items.get(name, "")
        require(isinstance(texts[name], str), f"{path}.{name}", texts[name], "be a string")
    return Saved(from_json(items["case"], f"{path}.case"), **texts)
