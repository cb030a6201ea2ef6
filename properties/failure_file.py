"""A failing case as a file that replays anywhere."""

import json
import os
import re
from dataclasses import dataclass
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


def save_failure(folder: Path, verdict: Verdict, failure: Failure) -> Path:
    """Write the failure and return its file; a larger one of the same target and check is replaced."""
    name = re.sub(r"[^A-Za-z0-9_.]+", "-", f"{verdict.operation}-{verdict.target}-{failure.finding.check}")
    content = {
        "version": VERSION,
        "operation": verdict.operation,
        "dialect": verdict.dialect,
        "target": verdict.target,
        "check": failure.finding.check,
        "message": failure.finding.message,
        "case": to_json(failure.case),
    }
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.json"
    partial = folder / f".{name}.{os.getpid()}.partial"
    partial.write_text(json.dumps(content, indent=1) + "\n")
    partial.replace(file)
    return file


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
