"""The cases that commands take: saved files, the text of a report, dumps of engines, shipped fixtures."""

from pathlib import Path

from cumae.fixtures.format import Fixture, load, names
from cumae.oracle.model.rules import did_you_mean, require
from cumae.properties.dialects.dump import case_of, likely_dialect
from cumae.properties.dialects.dump_file import is_dump, read_dump
from cumae.properties.results.case_text import is_text
from cumae.properties.results.failure_file import UNKNOWN, Saved, load_case
from cumae.properties.running.device import Device
from cumae.properties.search.budget import Budget
from cumae.properties.search.job import Job


def holds_tensors(source: Path) -> bool:
    """Return whether an argument is a dump of an engine's tensors."""
    return not is_text(source) and is_dump(source)


def dialect_of_dump(file: Path, dialect: str | None) -> str:
    """Return the given dialect. Raises ``ValueError`` without one, and names the one that fits the dump."""
    if dialect is None:
        likely = likely_dialect(read_dump(file))
        hint = f", most of them {likely}'s: --dialect {likely}?" if likely else ""
        raise ValueError(f"--dialect = None, must be given: {file} holds tensors by name{hint}")
    return dialect


def load_source(source: Path, target: str | None, operation: str | None, dialect: str | None) -> Saved:
    """Return the case of a file, a text or a dump, with the function to run on it.

    Raises ``ValueError`` for anything else, and if neither the source nor the arguments name the function,
    its operation and, for a dump, the dialect.
    """
    if not holds_tensors(source):
        return load_case(source, target, operation, dialect)
    chosen = dialect_of_dump(source, dialect)
    case = case_of(read_dump(source), chosen)
    require(target is not None, "target", target, f"be given: {source} is a dump, which names no function")
    require(operation is not None, "--op", operation, "be given: a dump names no operation")
    return Saved(case, str(operation), chosen, str(target), UNKNOWN)


def job_of(saved: Saved, device: Device, limit: float, checks: tuple[str, ...] | None = None) -> Job:
    """Return the search that runs the target of a saved case on this case alone, with some or all checks."""
    return Job(
        target=saved.target,
        operation=saved.operation,
        dialect=saved.dialect,
        device=device,
        limit=limit,
        budget=Budget(examples=0),
        cases=(saved.tried,),
        checks=checks,
        reduce=False,
        sanitizer=saved.finding.sanitizer,
        schedule=saved.finding.schedule,
        promised=saved.promised,
    )


def fixture_named(name: str) -> tuple[str, Fixture]:
    """Return a shipped fixture and its whole name. ``name``: OPERATION/NAME, or NAME if it is the only one.

    Raises ``ValueError`` for any other name, with similar ones.
    """
    known = {f"{operation}/{fixture.id}": fixture for operation in names() for fixture in load(operation)}
    found = [whole for whole in known if name in (whole, whole.partition("/")[2])]
    if len(found) == 1:
        return found[0], known[found[0]]
    if found:
        raise ValueError(f"FILE = {name!r}, must be one of {', '.join(found)}")
    ends = (whole.partition("/")[2] for whole in known)
    hint = did_you_mean(name, (*known, *ends))
    raise ValueError(f"FILE = {name!r}{hint}, must be a file, or OPERATION/NAME of a shipped fixture")
