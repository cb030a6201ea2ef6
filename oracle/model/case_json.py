"""Cases as JSON, written and read; a file that breaks the format is refused with the path of the field."""

import json
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from cumae.oracle.model.batch import Batch, Request
from cumae.oracle.model.case import Case
from cumae.oracle.model.layout import Layout
from cumae.oracle.model.options import GROUPS, Options
from cumae.oracle.model.rules import inside, require
from cumae.oracle.model.trace import Trace

VERSION = 1
MAX_FILE_BYTES = 64 * 2**20


def to_json(case: Case) -> dict[str, Any]:
    """Return the case as plain JSON values; fields that hold their default are left out."""
    return {
        "version": VERSION,
        "batch": {
            **_plain(case.batch, skip="requests"),
            "requests": [_plain(request) for request in case.batch.requests],
        },
        "layout": _plain(case.layout),
        "options": _plain(case.options),
    }


def from_json(value: object, path: str = "case") -> Case:
    """Return the case that ``to_json`` wrote.

    Raises ``ValueError`` naming the field by its path, its value and the rule it breaks.
    """
    items = closed(value, path, required=("version", "batch"), optional=("layout", "options"))
    require(type(items["version"]) is int, f"{path}.version", items["version"], f"be {VERSION}")
    require(items["version"] == VERSION, f"{path}.version", items["version"], f"be {VERSION}")
    batch = dict(_known(items["batch"], Batch, f"{path}.batch"))
    requests = batch["requests"]
    require(isinstance(requests, list), f"{path}.batch.requests", requests, "be a list")
    batch["requests"] = tuple(
        _build(
            Request, _known(request, Request, f"{path}.batch.requests[{b}]"), f"{path}.batch.requests[{b}]."
        )
        for b, request in enumerate(requests)
    )
    built = _build(Batch, batch, f"{path}.batch.")
    layout = _build(Layout, _known(items.get("layout", {}), Layout, f"{path}.layout"), f"{path}.layout.")
    options = _options(items.get("options", {}), f"{path}.options")
    with inside(f"{path}."):
        return Case(built, layout, options)


def trace_to_json(trace: Trace) -> list[dict[str, Any]]:
    """Return the steps of a trace as plain JSON values."""
    return [to_json(step) for step in trace.steps]


def trace_from_json(value: object, path: str = "trace") -> Trace:
    """Return the trace that ``trace_to_json`` wrote. Raises ``ValueError`` as ``from_json`` does."""
    require(isinstance(value, list), path, reprlib.repr(value), "be a list of cases")
    assert isinstance(value, list)
    steps = tuple(from_json(step, f"{path}[{k}]") for k, step in enumerate(value))
    with inside(f"{path}."):
        return Trace(steps)


def tried_to_json(tried: Case | Trace) -> Any:
    """Return a case as an object, or a trace as a list, of plain JSON values."""
    return trace_to_json(tried) if isinstance(tried, Trace) else to_json(tried)


def tried_from_json(value: object, path: str = "case") -> Case | Trace:
    """Return the case of an object, or the trace of a list. Raises ``ValueError`` as ``from_json`` does."""
    return trace_from_json(value, path) if isinstance(value, list) else from_json(value, path)


def closed(value: object, path: str, required: tuple[str, ...], optional: tuple[str, ...]) -> dict[str, Any]:
    """Return ``value`` as a dict; ``ValueError`` for a missing or an unknown field."""
    if not isinstance(value, dict):
        raise ValueError(f"{path} = {reprlib.repr(value)}, must be an object")
    for name in value:
        require(name in required + optional, f"{path}.{name}", value[name], "be absent: the field is unknown")
    for name in required:
        require(name in value, f"{path}.{name}", None, "be present: the field is required")
    return value


def fields_given(record: Any) -> list[Field[Any]]:
    """Return the fields of a dataclass or a record that are given; the others are made from these."""
    return [field for field in fields(record) if field.init]


def parse(text: str | bytes, path: str) -> object:
    """Return the JSON value in ``text``; ``ValueError`` for other text, also if huge or deeply nested."""
    require(len(text) <= MAX_FILE_BYTES, f"{path}: size in bytes", len(text), f"be <= {MAX_FILE_BYTES}")
    try:
        return json.loads(text, object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError(f"{path}: nesting, must be shallow enough for a case") from None
    except ValueError as error:
        raise ValueError(f"{path}: content, must be JSON: {error}") from error


def read_file(file: Path) -> object:
    """Return the JSON value in a file; ``ValueError`` if it cannot be read or holds no JSON."""
    try:
        require(file.is_file() or not file.exists(), f"{file}: file", str(file), "be a regular file")
        size = file.stat().st_size
        require(size <= MAX_FILE_BYTES, f"{file}: size in bytes", size, f"be <= {MAX_FILE_BYTES}")
        return parse(file.read_bytes(), str(file))
    except OSError as error:
        raise ValueError(f"{file}: file, must be readable: {error.strerror}") from error


def _options(value: object, path: str) -> Options:
    given = _known(value, Options, path)
    groups = {
        name: _build(GROUPS[name], _known(given[name], GROUPS[name], f"{path}.{name}"), f"{path}.{name}.")
        for name in given
    }
    return replace(Options(), **groups)


def _plain(record: Any, skip: str = "") -> dict[str, Any]:
    values: dict[str, Any] = {}
    for field in fields_given(record):
        value = getattr(record, field.name)
        if field.name != skip and (field.default is MISSING or value != field.default):
            values[field.name] = _plain_value(value)
    return values


def _plain_value(value: Any) -> Any:
    if is_dataclass(value):
        return _plain(value)
    return list(value) if isinstance(value, tuple) else value


def _known(value: object, kind: type[Any], path: str) -> Mapping[str, Any]:
    names = {field.name: field.default is MISSING for field in fields_given(kind)}
    required = tuple(name for name, needed in names.items() if needed)
    return closed(value, path, required, tuple(name for name in names if name not in required))


def _build(kind: Callable[..., Any], values: Mapping[str, Any], path: str) -> Any:
    with inside(path):
        return kind(**values)


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in values if names.count(name) > 1)
        require(False, twice, names.count(twice), "occur once in its object")
    return values


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number that a case can hold")
