"""``conforms_to``: a function with arguments by name as a pytest test, one item for each check."""

import inspect
import shlex
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from math import inf
from pathlib import Path
from typing import Any, Literal

import pytest

from cumae.oracle import OperationName
from cumae.oracle.model.rules import require_choice
from cumae.properties.cases.domain import Domain
from cumae.properties.checks import CHECKS, CheckName, checks_for
from cumae.properties.dialects import Dialect, DialectName
from cumae.properties.operations import Operation
from cumae.properties.operations.binding import Binding, binding_of
from cumae.properties.operations.callee import by_name
from cumae.properties.pytest_plugin.settings import HELP, settings_of
from cumae.properties.results.coverage import coverage_data
from cumae.properties.results.explain import explain
from cumae.properties.results.verdict import Verdict
from cumae.properties.running.device import Device, current, has_gpu, interpreting, prepare
from cumae.properties.search.budget import Budget
from cumae.properties.search.direct import require_examples
from cumae.properties.search.findings import device_lost
from cumae.properties.search.first_cases import first_cases
from cumae.properties.search.isolated import search_isolated
from cumae.properties.search.job import Job
from cumae.properties.search.loop import search
from cumae.properties.search.profiles import EXAMPLES

LOST = "an earlier item lost the CUDA context of this process: run this item without it"
NO_GPU = "device='cuda': no GPU to run on"
UNASKED = (
    "no device chosen, and what pytest fills (fixtures, `self`) cannot be passed to an isolated process: "
    "add --cumae-device=auto (or `cumae_device = auto` in the ini file)"
)
FILLED_BY_CUMAE = ("cumae_check", "cumae_shard", "request")
Function = Callable[..., Any]


def conforms_to(
    operation: OperationName | Operation,
    *,
    dialect: DialectName | Dialect = "cumae",
    domain: Domain | None = None,
    fixtures: Sequence[str] = (),
    device: Literal["any", "cuda"] = "any",
    checks: Sequence[CheckName] | None = None,
    examples: int = EXAMPLES["quick"],
) -> Callable[[Function], Function]:
    """Turn a function with arguments by name into a pytest test: one item for each check.

    ``fixtures``: parameters that pytest fills. ``device="cuda"``: needs a GPU and is skipped without
    one. ``checks``: run only these. ``examples``: cases per item under the quick profile; the other
    profiles scale it. Raises ``ValueError`` at collection for a parameter that is neither an input
    nor an output.
    """
    require_choice("device", device, ("any", "cuda"))
    require_examples(examples)
    for name in checks or ():
        require_choice("checks", name, tuple(CHECKS))

    def decorate(function: Function) -> Function:
        function = by_name(function)
        given = (*_owner(function), *fixtures)
        if inspect.isclass(function) and fixtures:
            raise ValueError(f"fixtures = {tuple(fixtures)}, must be none for a class, {function.__name__}")
        binding = binding_of(_filled(function, {}, given), operation, dialect, domain)

        @wraps(function)
        def test(*owner: Any, **arguments: Any) -> None:
            request = arguments["request"]
            values = dict(zip(given, owner, strict=False)) | {name: arguments[name] for name in fixtures}
            item = replace(binding, function=_filled(function, values, given))
            _run_item(item, arguments["cumae_check"], request, device, examples, by_pytest=bool(given))

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


def _run_item(
    binding: Binding, name: str, request: pytest.FixtureRequest, needs: str, examples: int, *, by_pytest: bool
) -> None:
    """Run one check as one item, with cases that depend on its node id and the seed."""
    settings = settings_of(request.config)
    device = _device_of(settings.device, needs)
    if device_lost(device):
        pytest.fail(LOST, pytrace=False)
    isolated = not settings.device and device == "cpu" and not interpreting()
    if isolated and (by_pytest or request.node.get_closest_marker("usefixtures")):
        pytest.fail(UNASKED, pytrace=False)
    target = _target(request)
    cases, seconds = settings.budget(examples)
    seed = zlib.crc32(f"{request.node.nodeid} {settings.seed}".encode()) % 2**20
    budget = Budget(examples=cases, seconds=seconds, seed=seed)
    try:
        if isolated:
            verdict = _searched_isolated(binding, name, target, budget, request, settings.failures)
        else:
            verdict = search(
                binding,
                device,
                budget,
                checks=[name],
                first=first_cases(binding, target, settings.failures, [name]),
                save_to=settings.failures,
                target=target,
            )
    except ValueError as error:
        pytest.fail(str(error), pytrace=False)
    counts = [verdict.cases, verdict.comparisons, verdict.not_promised]
    request.node.user_properties.append(("cumae", counts))
    request.node.user_properties.append(("cumae largest", verdict.largest))
    if settings.coverage is not None or request.config.option.verbose > 0:
        kernels = [coverage_data(kernel) for kernel in verdict.coverage]
        request.node.user_properties.append(("cumae coverage", kernels))
    if verdict.ok:
        return
    again = None
    if by_pytest and verdict.failure is not None:
        again = [f"saved: {verdict.failure.file}", f"reproduce: {_again(request, device)}"]
    verbose = request.config.option.tbstyle == "long"
    pytest.fail(explain(verdict, verbose=verbose, again=again), pytrace=False)


def _searched_isolated(
    binding: Binding,
    check: str,
    target: str,
    budget: Budget,
    request: pytest.FixtureRequest,
    failures: Path,
) -> Verdict:
    """Return the verdict of an item, run in an isolated process that interprets kernels on the CPU.

    The process imports the test file with pytest's ``sys.path`` and finds the test in it. Cases have no time
    limit, as in this process.
    """
    job = Job(
        target=target,
        operation=binding.operation.name,
        dialect=binding.dialect.name,
        device="cpu",
        limit=inf,
        budget=budget,
        failures=failures,
        checks=(check,),
        path=tuple(sys.path),
    )
    return search_isolated(job)


def _device_of(wanted: str, needs: str) -> Device:
    """Return the device of an item. Without an option, keep the current device of the process."""
    if needs == "cuda" and not has_gpu():
        pytest.skip(NO_GPU)
    device = current()
    if wanted or interpreting():
        try:
            device = prepare(wanted or device)
        except ValueError as error:
            pytest.fail(str(error), pytrace=False)
    if needs == "cuda" and device != "cuda":
        pytest.skip("device='cuda': this run is on the CPU")
    return device


def _target(request: pytest.FixtureRequest) -> str:
    """Return the target by which ``cumae replay`` finds the test: its file and its name there."""
    owner = f"{request.cls.__qualname__}." if request.cls is not None else ""
    return f"{_file_of(request)}:{owner}{getattr(request.node, 'originalname', request.node.name)}"


def _file_of(request: pytest.FixtureRequest) -> Path:
    """Return the test file relative to the folder in which pytest was called."""
    here = request.config.invocation_params.dir
    return request.path.relative_to(here) if request.path.is_relative_to(here) else request.path


def _again(request: pytest.FixtureRequest, device: Device) -> str:
    """Return the command that runs an item again, with the options that the ini file does not set."""
    config = request.config
    given = {name: config.getoption(f"cumae_{name}") for name in HELP}
    if given["device"] or not config.getini("cumae_device"):
        given["device"] = device
    node = f"{_file_of(request)}::{request.node.nodeid.partition('::')[2]}"
    options = [f"--cumae-{name}={value}" for name, value in given.items() if value]
    return shlex.join(["pytest", node, *options])
