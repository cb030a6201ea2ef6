"""A failing case as a file that replays anywhere."""

import json
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any
from zlib import crc32

from cumae.oracle import Case, Trace, from_json, to_json, trace_from_json, trace_to_json
from cumae.oracle.model.case_json import closed
from cumae.oracle.model.rules import require
from cumae.properties.results.case_text import name_of, read_source
from cumae.properties.results.verdict import Failure, Finding, Verdict
from cumae.properties.results.writable import cannot

VERSION = 1
LONGEST_PART = 60
"""Letters of the name of a file for the part of a search; longer names are hashed."""
UNKNOWN = Finding("", "", "")
_OPTIONAL = ("answer", "base", "case", "code", "domain", "named", "promised", "trace")
_ALWAYS = ("check", "message", "rule")
_KINDS = {
    **dict.fromkeys(("index", "count", "total", "raised_by"), int),
    **dict.fromkeys(("wrong", "rows"), list),
    "ended": bool,
}


@dataclass(frozen=True, slots=True)
class Saved:
    """The contents of a failure file: a case, and the finding of a target on it.

    ``trace``: the steps that lead to the failure, of which ``case`` is the last; None for a single case.
    ``base``: the function that the target was compared with, "" for the oracle. ``domain``: the target's
    promises that differ from the defaults, as text; ``promised``: those given beside the target's own, each
    ``NAME=VALUE``. ``answer``: of a dump, the values of the engine's outputs
    by name. ``code``: the CRC of the file of the target's source when it failed, 0 if unknown.
    """

    case: Case
    operation: str
    dialect: str
    target: str
    finding: Finding
    trace: Trace | None = None
    base: str = ""
    domain: str = ""
    answer: Mapping[str, list[int]] = field(default_factory=dict)
    code: int = 0
    promised: tuple[str, ...] = ()

    @property
    def tried(self) -> Case | Trace:
        """The trace, or the single case."""
        return self.trace or self.case


def steps_of(tried: Case | Trace) -> tuple[Case, ...]:
    """Return the steps of a trace, or the single case."""
    return tried.steps if isinstance(tried, Trace) else (tried,)


def failure_file(folder: Path, verdict: Verdict, check: str) -> Path:
    """Return the file of a failure; each operation, dialect, target, check, domain and part has its own."""
    return folder / f"{failure_key(verdict, check)}.json"


def failure_key(verdict: Verdict, check: str) -> str:
    """Return the name of a failure, which is that of its file without the ending."""
    stem = _stem(verdict.operation, verdict.dialect, verdict.target, check)
    domain = f"-{crc32(verdict.domain.encode()):08x}" if verdict.domain else ""
    part = f"-{_stem(verdict.part)}" if verdict.part else ""
    if len(part) > LONGEST_PART:
        part = f"-{crc32(verdict.part.encode()):08x}"
    return f"{stem}{domain}{part}"


def _stem(*parts: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.]+", "-", "-".join(parts))


def save_failure(folder: Path, verdict: Verdict, failure: Failure, base: str = "") -> Path:
    """Write the failure and return its file, replacing an earlier one of the same target and check."""
    file = failure_file(folder, verdict, failure.finding.check)
    folder.mkdir(parents=True, exist_ok=True)
    write_failure(file, verdict, failure, base)
    return file


def save_or_note(folder: Path, verdict: Verdict, failure: Failure) -> Failure:
    """Write the failure and return it with its file; if that fails, set ``verdict.unsaved`` to the reason."""
    try:
        file = save_failure(folder, verdict, failure)
    except OSError as error:
        verdict.unsaved = cannot("failures", folder, "folder", error)
        return replace(failure, file=None)
    verdict.unsaved = ""
    return replace(failure, file=file)


def write_failure(file: Path, verdict: Verdict, failure: Failure, base: str = "") -> None:
    """Write the failure to a file atomically. ``base``: the function that the target was compared with."""
    content = content_of(verdict, failure, base)
    partial = file.with_name(f".{file.name}.{os.getpid()}.partial")
    try:
        partial.write_text(json.dumps(content, indent=1) + "\n")
        partial.replace(file)
    except OSError:
        with suppress(OSError):
            partial.unlink()
        raise


def content_of(verdict: Verdict, failure: Failure, base: str = "") -> dict[str, Any]:
    """Return the contents of a failure file as plain JSON values."""
    return {
        "version": VERSION,
        "operation": verdict.operation,
        "dialect": verdict.dialect,
        "target": verdict.target,
        **({"domain": verdict.domain} if verdict.domain else {}),
        **({"promised": list(verdict.promised)} if verdict.promised else {}),
        **({"named": list(verdict.named)} if verdict.named else {}),
        **({"code": code} if (code := code_of(verdict)) else {}),
        **({"base": base} if base else {}),
        "finding": {
            name: value
            for name, value in asdict(failure.finding).items()
            if name in _ALWAYS or (value not in ("", ()) and value is not False)
        },
        **({"answer": dict(verdict.answer)} if verdict.answer else {}),
        **({"trace": trace_to_json(failure.trace)} if failure.trace else {"case": to_json(failure.case)}),
    }


def code_of(verdict: Verdict) -> int:
    """Return the CRC of the file that defines the function, 0 if it is not known."""
    if verdict.source is None:
        return 0
    try:
        return crc32(Path(verdict.source[0]).read_bytes())
    except OSError:
        return 0


def saved_failures(
    folder: Path, operation: str, dialect: str, target: str, checks: Iterable[str]
) -> list[Saved]:
    """Return the saved failures of a target for these checks, in this dialect, of any domain and part.

    Raises ``ValueError`` for a file that is not a failure file.
    """
    found = []
    for check in checks:
        stem = _stem(operation, dialect, target, check)
        files = [*folder.glob(f"{stem}.json"), *folder.glob(f"{stem}-*.json")]
        saved = [load_failure(file) for file in sorted(files)]
        wanted = (operation, dialect, target, check)
        found += [s for s in saved if (s.operation, s.dialect, s.target, s.finding.check) == wanted]
    return found


def load_case(source: Path, target: str | None, operation: str | None, dialect: str | None) -> Saved:
    """Return a saved failure or a plain case; a given target, operation or dialect replaces the saved one.

    Raises ``ValueError`` for a source that is neither, and for a plain case without target or operation.
    """
    content = read_source(source)
    if not (isinstance(content, dict) and "batch" in content):
        saved = load_failure(source)
        return replace(
            saved,
            target=target or saved.target,
            operation=operation or saved.operation,
            dialect=dialect or saved.dialect,
        )
    if target is None or operation is None:
        missing = "target" if target is None else "operation"
        raise ValueError(f"{name_of(source)}.{missing} = None, must be given: the file is a case without one")
    return Saved(from_json(content, name_of(source)), operation, dialect or "cumae", target, UNKNOWN)


def load_failure(source: Path) -> Saved:
    """Return a failure from its file or text. Raises ``ValueError`` naming field, value and rule."""
    return saved_from(read_source(source), name_of(source))


def saved_from(content: object, path: str) -> Saved:
    """Return the saved failure that a JSON value describes. ``path`` begins the names in its errors."""
    required = ("version", "operation", "dialect", "target", "finding")
    items = closed(content, path, required=required, optional=_OPTIONAL)
    version = items["version"]
    require(type(version) is int and version == VERSION, f"{path}.version", version, f"be {VERSION}")
    texts = {}
    for name in ("operation", "dialect", "target", "base", "domain"):
        texts[name] = items.get(name, "")
        require(isinstance(texts[name], str), f"{path}.{name}", texts[name], "be a string")
    finding = _finding(items["finding"], f"{path}.finding")
    _integers(items.get("named", []), f"{path}.named")
    code = items.get("code", 0)
    require(type(code) is int, f"{path}.code", code, "be an integer")
    promised = _texts(items.get("promised", []), f"{path}.promised")
    more: dict[str, Any] = {"finding": finding, "code": code, "promised": promised}
    if "trace" in items:
        require("case" not in items, f"{path}.case", "an object", "be absent: the file has a trace")
        trace = trace_from_json(items["trace"], f"{path}.trace")
        return Saved(trace.steps[-1], **texts, trace=trace, **more)
    answer = _answer(items.get("answer", {}), f"{path}.answer")
    require("case" in items, f"{path}.case", None, "be present: the field is required")
    case = from_json(items["case"], f"{path}.case")
    return Saved(case, **texts, answer=answer, **more)


def _answer(value: object, path: str) -> dict[str, list[int]]:
    """Return the outputs of a dump by name."""
    if not isinstance(value, dict):
        raise ValueError(f"{path} = {value!r}, must be an object")
    return {name: _integers(given, f"{path}.{name}") for name, given in value.items()}


def _integers(value: object, path: str) -> list[int]:
    if not isinstance(value, list):
        raise ValueError(f"{path} = {value!r}, must be a list of integers")
    for i, number in enumerate(value):
        require(type(number) is int, f"{path}[{i}]", number, "be an integer")
    return value


def _texts(value: object, path: str) -> tuple[str, ...]:
    if not (isinstance(value, list) and all(isinstance(one, str) for one in value)):
        raise ValueError(f"{path} = {value!r}, must be a list of strings")
    return tuple(value)


def _finding(value: object, path: str) -> Finding:
    known = {field.name: field for field in fields(Finding)}
    needed = tuple(name for name, field in known.items() if field.default is MISSING)
    items = dict(closed(value, path, needed, tuple(name for name in known if name not in needed)))
    for name, given in items.items():
        kind = _KINDS.get(name, str)
        require(type(given) is kind, f"{path}.{name}", given, f"be of type {kind.__name__}")
    lists = {
        name: _integers(items.get(name, []), f"{path}.{name}")
        for name, kind in _KINDS.items()
        if kind is list
    }
    plain: dict[str, Any] = {**items, **{name: tuple(numbers) for name, numbers in lists.items()}}
    return Finding(**plain)
