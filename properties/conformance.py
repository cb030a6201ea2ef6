"""Testing a kernel by naming its arguments: ``conforms_to`` for pytest, ``check`` without it."""

import inspect
import zlib
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from cumae.oracle import Case
from cumae.properties.batches.cases import renamed
from cumae.properties.batches.domain import Domain
from cumae.properties.checks import checks_for
from cumae.properties.dialects import DIALECTS
from cumae.properties.operations import OPERATIONS
from cumae.properties.reports.explain import explain
from cumae.properties.running.binding import Binding, bind
from cumae.properties.running.device import prepare
from cumae.properties.search import Budget, search
from cumae.properties.verdict import Verdict

FAILURES = Path(".cumae/failures")
EXAMPLES = 40
UNASKED = "no device chosen: add --cumae-device=auto (or `cumae_device = auto` in the ini file)"


def binding_of(
    function: Callable[..., Any], operation: str, dialect: str = "cumae", domain: Domain | None = None
) -> Binding:
    """Return a function bound by name. Raises ``ValueError`` for unknown names, listing the known ones."""
    if operation not in OPERATIONS:
        raise ValueError(f"operation = {operation!r}, must be one of {', '.join(OPERATIONS)}")
    if dialect not in DIALECTS:
        raise ValueError(f"dialect = {dialect!r}, must be one of {', '.join(DIALECTS)}")
    return bind(function, OPERATIONS[operation], DIALECTS[dialect], domain)


def fixture_cases(binding: Binding) -> list[Case]:
    """Return the valid fixture cases of an operation that the function promises and can see."""
    from cumae.fixtures.format import load

    reserved = binding.domain.reserved_blocks
    cases = [renamed(fixture.case, reserved) for fixture in load(binding.operation.name) if fixture.case]
    return [case for case in cases if binding.why_not(case) is None]


def check(
    function: Callable[..., Any],
    operation: str,
    *,
    dialect: str = "cumae",
    domain: Domain | None = None,
    examples: int = 200,
    seconds: float | None = None,
    seed: int = 0,
    device: str = "auto",
    save_to: Path | None = FAILURES,
) -> Verdict:
    """Return the verdict on a function after fixtures, drawn and seeded cases.

    The function's parameters are filled by name. Raises ``ValueError`` for names that do not exist.
    """
    chosen = prepare(device)
    binding = binding_of(function, operation, dialect, domain)
    budget = Budget(examples=examples, seconds=seconds, seed=seed)
    return search(binding, chosen, budget, first=fixture_cases(binding), save_to=save_to)


def conforms_to(
    operation: str, *, dialect: str = "cumae", domain: Domain | None = None, examples: int = EXAMPLES
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Turn a function with arguments by name into a pytest test: one item for each check.

    Raises ``ValueError`` at collection for a name that is neither an input nor an output.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        binding = binding_of(function, operation, dialect, domain)

        @wraps(function)
        def test(cumae_check: str, request: pytest.FixtureRequest) -> None:
            config = request.config
            wanted = str(config.getoption("cumae_device") or config.getini("cumae_device") or "")
            if not wanted:
                pytest.fail(UNASKED, pytrace=False)
            device = prepare(wanted)
            seed = zlib.crc32(request.node.nodeid.encode())
            verdict = search(
                binding,
                device,
                Budget(examples=examples, seed=seed % 2**20),
                checks=[cumae_check],
                first=fixture_cases(binding),
                save_to=FAILURES,
            )
            if not verdict.ok:
                pytest.fail(explain(verdict), pytrace=False)

        parameters = [
            inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD)
            for name in ("cumae_check", "request")
        ]
        test.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        marked: Callable[..., Any] = pytest.mark.parametrize("cumae_check", checks_for(binding))(test)
        return marked

    return decorate
