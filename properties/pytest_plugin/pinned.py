"""Pinned cases: those that a test names, and that each of its items tries first."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cumae.oracle import Case, Trace, from_json, trace_from_json
from cumae.oracle.model.case_json import read_file
from cumae.oracle.model.rules import require
from cumae.properties.operations.binding import Binding
from cumae.properties.operations.users_files import source_of
from cumae.properties.results.failure_file import saved_from, steps_of


def pinned_cases(
    given: Sequence[Case | Trace | str | Path], binding: Binding, function: Callable[..., Any]
) -> tuple[Case | Trace, ...]:
    """Return the cases and traces, read from files where paths are given.

    A path is relative to the file of ``function``. Raises ``ValueError`` for a file that holds no case, no
    trace and no saved failure of the operation, and for a case that the function does not promise.
    """
    require(not isinstance(given, (str, Path)), "cases", given, "be a list")
    source = source_of(function)
    folder = Path(source[0]).parent if source else Path()
    pinned = []
    for number, one in enumerate(given):
        name = f"cases[{number}]"
        require(isinstance(one, (Case, Trace, str, Path)), name, one, "be a case, a trace or a path")
        tried = _read(folder / one, binding) if isinstance(one, (str, Path)) else one
        for case in steps_of(tried):
            reason = binding.why_not(case)
            shown = str(one) if isinstance(one, (str, Path)) else type(one).__name__
            require(reason is None, name, shown, f"be promised by {binding.name}: it has {reason}")
        pinned.append(tried)
    return tuple(pinned)


def _read(file: Path, binding: Binding) -> Case | Trace:
    """Return the case or trace in a file."""
    content = read_file(file)
    if isinstance(content, list):
        return trace_from_json(content, file.name)
    if isinstance(content, dict) and "batch" in content:
        return from_json(content, file.name)
    saved = saved_from(content, file.name)
    known = binding.operation.name
    require(saved.operation == known, f"{file.name}.operation", saved.operation, f"be {known}, as the test's")
    return saved.tried
