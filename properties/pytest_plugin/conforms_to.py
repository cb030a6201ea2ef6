"""``conforms_to``: a function with arguments by name as a pytest test, one item for each check."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any, Literal

import pytest

from cumae.oracle import Case, OperationName, Trace
from cumae.oracle.model.rules import require_choice
from cumae.properties.cases.domain import Domain
from cumae.properties.checks import CHECKS, CheckName, checks_for
from cumae.properties.dialects import Dialect, DialectName
from cumae.properties.operations import Operation
from cumae.properties.operations.binding import binding_of
from cumae.properties.operations.callee import by_name
from cumae.properties.pytest_plugin.item import run_item
from cumae.properties.pytest_plugin.pinned import pinned_cases
from cumae.properties.running.device import current
from cumae.properties.running.observation import IsATest
from cumae.properties.search.direct import require_examples
from cumae.properties.search.profiles import EXAMPLES

FILLED_BY_CUMAE = ("cumae_check", "cumae_shard", "request")
Function = Callable[..., Any]
_PLAIN = (
    "function = {name!r}, must be a plain function, not a test by conforms_to: keep the function, and write "
    "`test = conforms_to(...)(function)` beside it"
)
"""The error of a test of a test, or of a call of one: it says what to write instead."""


def conforms_to(
    operation: OperationName | Operation,
    *,
    dialect: DialectName | Dialect = "cumae",
    domain: Domain | None = None,
    fixtures: Sequence[str] = (),
    device: Literal["any", "cuda"] = "any",
    checks: Sequence[CheckName] | None = None,
    examples: int = EXAMPLES["quick"],
    cases: Sequence[Case | Trace | str | Path] = (),
) -> Callable[[Function], Function]:
    """Turn a function with arguments by name into a pytest test: one item for each check.

    ``fixtures``: parameters that pytest fills. ``device="cuda"``: needs a GPU and is skipped without
    one. ``checks``: run only these. ``examples``: cases per item under the quick profile; the other
    profiles scale it. ``cases``: pinned cases, which every item tries first: cases, traces, and files of
    either or of saved failures, relative to the test's file. Raises ``ValueError`` at collection for a
    parameter that is neither an input nor an output, and for a pinned case outside the function's promises.
    """
    require_choice("device", device, ("any", "cuda"))
    require_examples(examples)
    for name in checks or ():
        require_choice("checks", name, tuple(CHECKS))

    def decorate(function: Function) -> Function:
        if hasattr(function, "cumae_binding"):
            raise ValueError(_PLAIN.format(name=function.__qualname__))
        function = by_name(function)
        given = (*_owner(function), *fixtures)
        if inspect.isclass(function) and fixtures:
            raise ValueError(f"fixtures = {tuple(fixtures)}, must be none for a class, {function.__name__}")
        try:
            binding = binding_of(_filled(function, {}, given), operation, dialect, domain)
        except ValueError as error:
            raise ValueError(f"{error} (of the test {function.__name__})") from error
        binding = replace(binding, pinned=pinned_cases(cases, binding, function))

        @wraps(function)
        def test(*owner: Any, **arguments: Any) -> None:
            if "request" not in arguments:
                raise IsATest(_PLAIN.format(name=function.__qualname__))
            request = arguments["request"]
            values = dict(zip(given, owner, strict=False)) | {name: arguments[name] for name in fixtures}
            item = replace(binding, function=_filled(function, values, given))
            run_item(item, arguments["cumae_check"], request, device, examples, by_pytest=bool(given))

        if inspect.isclass(function) or not inspect.isfunction(getattr(function, "__wrapped__", function)):
            del test.__dict__["__wrapped__"]  # pytest would look for the wrapped code
        names = dict.fromkeys((*_owner(function), *FILLED_BY_CUMAE, *fixtures))
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        signature = inspect.Signature([inspect.Parameter(name, kind) for name in names])
        for name, value in (
            ("__signature__", signature),
            ("cumae_binding", binding),
            ("cumae_given", given),
            ("cumae_needs", device),
        ):
            setattr(test, name, value)
        marked: Function = pytest.mark.parametrize("cumae_check", checks or checks_for(binding, current()))(
            test
        )
        return marked

    return decorate


def _owner(function: Function) -> tuple[str, ...]:
    """Return ``self`` for a method of a test class, else nothing."""
    names = tuple(inspect.signature(function).parameters)
    return names[:1] if names[:1] == ("self",) else ()


def _filled(function: Function, values: Mapping[str, Any], given: Sequence[str]) -> Function:
    """Return the function with the given parameters filled and removed from its signature."""
    if inspect.isclass(function):
        return function
    signature = inspect.signature(function)
    for name in given:
        if name not in signature.parameters:
            raise ValueError(f"fixtures = {name!r}, must be a parameter of {function.__qualname__}")

    @wraps(function)
    def filled(**arguments: Any) -> Any:
        return function(**values, **arguments)

    left = [parameter for name, parameter in signature.parameters.items() if name not in given]
    filled.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
    return filled
