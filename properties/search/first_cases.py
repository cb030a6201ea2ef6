"""The first cases of a search, tried before any is drawn: pinned ones, saved failures, then fixtures."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from cumae.oracle import Case, Trace
from cumae.properties.cases.draws import renamed
from cumae.properties.checks import CHECKS
from cumae.properties.operations.binding import Binding
from cumae.properties.results.failure_file import saved_failures, steps_of


def fixture_cases(binding: Binding) -> list[Case]:
    """Return the valid fixture cases of an operation that the function promises and can see."""
    from cumae.fixtures.format import load, names

    if binding.operation.name not in names():
        return []
    reserved = binding.domain.reserved_blocks
    cases = [renamed(fixture.case, reserved) for fixture in load(binding.operation.name) if fixture.case]
    return [case for case in cases if binding.why_not(case) is None]


def first_cases(
    binding: Binding,
    target: str,
    failures: Path | None,
    checks: Iterable[str] = CHECKS,
    shared: Sequence[Case | Trace] = (),
) -> list[Case | Trace]:
    """Return the function's pinned cases, the target's saved failures, then fixtures.

    Failures count if they were saved in this dialect, under any domain, and lie within the function's
    domain; among them traces come last. ``shared``: failures that other machines found.
    """
    tried: list[Case | Trace] = []
    if failures is not None:
        names = (binding.operation.name, binding.dialect.name, target)
        tried = [saved.tried for saved in saved_failures(failures, *names, checks)]
    known = dict.fromkeys((*tried, *shared))
    first = [one for one in known if all(binding.why_not(case) is None for case in steps_of(one))]
    first.sort(key=lambda one: isinstance(one, Trace))
    return [*dict.fromkeys((*binding.pinned, *first)), *fixture_cases(binding)]
