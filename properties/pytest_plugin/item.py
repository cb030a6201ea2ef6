"""One item of a test that ``conforms_to`` made: run one check, and fail with what it found."""

import json
import shlex
import sys
import zlib
from math import inf
from pathlib import Path
from typing import NoReturn

import pytest

from cumae.properties.operations.binding import Binding
from cumae.properties.pytest_plugin.reports import REPORT
from cumae.properties.pytest_plugin.settings import HELP, Settings, settings_of
from cumae.properties.results.coverage import coverage_data
from cumae.properties.results.explain import finding_line, report_lines
from cumae.properties.results.verdict import Finding, Verdict
from cumae.properties.running.device import Device, current, has_gpu, interpreting, prepare
from cumae.properties.search.budget import Budget
from cumae.properties.search.confirm import confirm
from cumae.properties.search.database import shared_at
from cumae.properties.search.findings import device_lost
from cumae.properties.search.first_cases import first_cases
from cumae.properties.search.isolated import search_isolated
from cumae.properties.search.job import Job
from cumae.properties.search.loop import search

LOST = "an earlier item lost the CUDA context of this process: run this item without it"
NO_GPU = "device='cuda': no GPU to run on"
UNASKED = (
    "no device chosen, and what pytest fills (fixtures, `self`) cannot be passed to an isolated process: "
    "add --cumae-device=auto (or `cumae_device = auto` in the ini file)"
)


def run_item(
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
    target, part = _target(request), _part(request, name)
    shared = shared_at(settings.database)
    cases, seconds = settings.budget(examples)
    seed = zlib.crc32(f"{request.node.nodeid} {settings.seed}".encode()) % 2**20
    budget = Budget(examples=cases, seconds=seconds, seed=seed)
    job = _job(binding, name, target, part, budget, device, settings)
    try:
        if isolated:
            verdict = search_isolated(job)
        else:
            found = shared.fetched(*_key(binding, target), (name,)) if shared is not None else ()
            verdict = search(
                binding,
                device,
                budget,
                checks=[name],
                first=first_cases(binding, target, settings.failures, [name], found),
                save_to=settings.failures,
                target=target,
                part=part,
                shared=shared,
            )
    except ValueError as error:
        pytest.fail(str(error), pytrace=False)
    if not by_pytest:
        confirm(job, verdict)
    told = request.node.user_properties
    if shared is not None and shared.trouble:
        told.append(("cumae trouble", shared.trouble))
    told.append(("cumae", [verdict.cases, verdict.comparisons, verdict.not_promised]))
    told.append(("cumae largest", verdict.largest))
    if settings.coverage is not None or request.config.option.verbose > 0:
        told.append(("cumae coverage", [coverage_data(kernel) for kernel in verdict.coverage]))
    if verdict.ok:
        return
    again = None
    if by_pytest and verdict.failure is not None:
        again = [f"saved: {verdict.failure.file}", f"reproduce: {_again(request, device)}"]
    _fail(request, verdict, target, again)


def _fail(request: pytest.FixtureRequest, verdict: Verdict, target: str, again: list[str] | None) -> NoReturn:
    """Fail the item with the report of a verdict. ``again``: the lines that say how to repeat it."""
    verbose = request.config.option.tbstyle == "long"
    lines = report_lines(verdict, verbose=verbose, again=again)
    if verdict.failure is not None:
        file, line, _ = request.node.location
        request.node.stash[REPORT] = {
            "lines": [tuple(one) for one in lines],
            "line": finding_line(verdict.failure.finding),
            "where": verdict.source or (file, (line or 0) + 1),
            "reason": reason_of(target, verdict.failure.finding),
        }
    pytest.fail("\n".join(line.text for line in lines), pytrace=False)


def reason_of(target: str, finding: Finding) -> str:
    """Return what findings of one target share if they have one reason: where it raised, or what it gave."""
    where = [line for line in finding.traceback.splitlines() if line.startswith("  ")]
    told = where or [finding.message, finding.expected, finding.actual]
    return json.dumps([target, finding.rule, told])


def _key(binding: Binding, target: str) -> tuple[str, str, str]:
    return binding.operation.name, binding.dialect.name, target


def _part(request: pytest.FixtureRequest, check: str) -> str:
    """Return the shard and the other parameters of an item: each has its own files of failures."""
    return str(request.node.callspec.id).replace(check, "", 1).strip("-")


def _job(
    binding: Binding,
    check: str,
    target: str,
    part: str,
    budget: Budget,
    device: Device,
    settings: Settings,
) -> Job:
    """Return the search of an item in an isolated process, which interprets kernels on the CPU.

    The process imports the test file with pytest's ``sys.path`` and finds the test in it. Cases have no time
    limit, as in this process.
    """
    return Job(
        target=target,
        operation=binding.operation.name,
        dialect=binding.dialect.name,
        device=device,
        limit=inf,
        budget=budget,
        failures=settings.failures,
        checks=(check,),
        path=tuple(sys.path),
        part=part,
        database=settings.database,
    )


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
    given = {name: config.getoption(f"cumae_{name}") for name in HELP if name != "database"}
    if given["device"] or not config.getini("cumae_device"):
        given["device"] = device
    node = f"{_file_of(request)}::{request.node.nodeid.partition('::')[2]}"
    options = [f"--cumae-{name}={value}" for name, value in given.items() if value]
    return shlex.join(["pytest", node, *options])
