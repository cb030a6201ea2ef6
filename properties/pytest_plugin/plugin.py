"""The pytest plugin: sets the device before triton is imported, and counts the cases of cumae's items."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from cumae.properties.pytest_plugin.reports import ATTRIBUTE, REPORT, Reporter
from cumae.properties.pytest_plugin.settings import HELP, header_lines, settings_of
from cumae.properties.results.counting import counted
from cumae.properties.results.coverage import KernelCoverage, coverage_lines, coverage_of_data, merged
from cumae.properties.results.coverage_file import require_coverage, write_coverage
from cumae.properties.results.fitted import fitted, terminal_width
from cumae.properties.results.reach import largest_among, largest_line
from cumae.properties.results.writable import require_folder


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the ``--cumae-*`` options, and ini values of the same names with underscores."""
    group = parser.getgroup("cumae")
    for name, text in HELP.items():
        group.addoption(f"--cumae-{name}", default=None, help=text)
        parser.addini(f"cumae_{name}", text, default="")


def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Set the device if the option or the ini value names one; otherwise change nothing."""
    option = early_config.known_args_namespace.cumae_device
    wanted = option or early_config.getini("cumae_device")
    if not wanted:
        return
    from cumae.oracle.model.rules import require_choice
    from cumae.properties.pytest_plugin.workers import take_gpu
    from cumae.properties.running.device import DEVICES, prepare

    try:
        require_choice("--cumae-device" if option else "cumae_device", wanted, DEVICES)
        device = prepare(wanted)
    except ValueError as error:
        raise pytest.UsageError(str(error)) from error
    if device == "cuda":
        take_gpu(os.environ)


@pytest.hookimpl(hookwrapper=True)
def pytest_cmdline_main(config: pytest.Config) -> Iterator[None]:
    """Limit the workers of pytest-xdist on GPUs before it starts them."""
    if _on_gpus(config) and getattr(config.option, "numprocesses", None):
        from cumae.properties.pytest_plugin.workers import limit_workers

        limit_workers(config.option, os.environ)
    yield


def _on_gpus(config: pytest.Config) -> bool:
    """Return whether a device is chosen, and it is a GPU."""
    wanted = config.getoption("cumae_device") or config.getini("cumae_device")
    if wanted not in ("auto", "cuda"):
        return False
    from cumae.properties.running.device import has_gpu

    return has_gpu()


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Return at most four lines: device, profile and seed, where failures are kept, the GPUs of workers."""
    lines = header_lines(config)
    if lines and _on_gpus(config):
        from cumae.properties.pytest_plugin.workers import mapping

        lines += [f"cumae: {told}" for told in [mapping(config.option, os.environ)] if told]
    return lines


def pytest_configure(config: pytest.Config) -> None:
    """Refuse values that cannot be parsed, and a given folder that cannot be written."""
    try:
        settings = settings_of(config)
        folder = settings.failures
        if settings.coverage is not None:
            require_coverage("--cumae-coverage", settings.coverage)
        if config.getoption("cumae_failures") or config.getini("cumae_failures"):
            require_folder("--cumae-failures", folder)
    except ValueError as error:
        raise pytest.UsageError(str(error)) from error
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Reporter(whole=config.option.verbose > 1), "cumae-reports")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Attach what a failed item tells to its report, which an xdist worker sends."""
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    if report.when == "call" and REPORT in item.stash:
        setattr(report, ATTRIBUTE, item.stash[REPORT])


@pytest.fixture
def cumae_shard() -> str:
    """Return the number of this item among those of its check, such as ``2of4``."""
    return "1of1"


@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make several items of each check if the run has shards."""
    if "cumae_shard" in metafunc.fixturenames:
        shards = settings_of(metafunc.config).shards
        if shards > 1:
            metafunc.parametrize("cumae_shard", [f"{i}of{shards}" for i in range(1, shards + 1)])


@pytest.hookimpl(hookwrapper=True, trylast=True)
def pytest_runtestloop(session: pytest.Session) -> Iterator[None]:
    """Write the coverage of kernels after the last item, before pytest-cov combines its files."""
    yield
    config, file = session.config, settings_of(session.config).coverage
    if file is None or config.option.collectonly or hasattr(config, "workerinput"):
        return
    try:
        write_coverage("--cumae-coverage", file, _coverage(config))
    except ValueError as error:
        raise pytest.UsageError(str(error)) from error


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run if its cumae items compared nothing."""
    counts = list(_told(session.config, "cumae"))
    if counts and not sum(comparisons for _, comparisons, _ in counts) and session.exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the numbers of cases and comparisons if any cumae item ran."""
    counts = list(_told(config, "cumae"))
    if not counts:
        return
    cases, comparisons, not_promised = (sum(column) for column in zip(*counts, strict=True))
    line = f"cumae: {counted(cases, 'case')}, {counted(comparisons, 'comparison')}"
    line += f", {not_promised} not promised"
    if comparisons:
        terminalreporter.write_line(line)
        largest = largest_line(largest_among(_told(config, "cumae largest")))
        terminalreporter.write_line(fitted(largest, terminal_width()))
    else:
        terminalreporter.write_line(f"{line}: nothing was compared, which is a failure", red=True)
    kernels = _coverage(config)
    if config.option.verbose > 0:
        for told in coverage_lines(kernels):
            terminalreporter.write_line(f"cumae: {told}")
    for trouble in [*_told(config, "cumae trouble")][:1]:
        terminalreporter.write_line(f"cumae: {trouble}", yellow=True)
    if (file := settings_of(config).coverage) is not None:
        terminalreporter.write_line(f"cumae: coverage of {counted(len(kernels), 'kernel')}: {file}")


def _coverage(config: pytest.Config) -> tuple[KernelCoverage, ...]:
    """Return the coverage of kernels by all items."""
    return merged(coverage_of_data(data) for told in _told(config, "cumae coverage") for data in told)


def _told(config: pytest.Config, wanted: str) -> Iterator[Any]:
    """Yield what each item tells under a name; reports carry it, also from xdist workers."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    for reports in reporter.stats.values() if reporter is not None else ():
        for report in reports:
            if getattr(report, "when", None) == "call":
                yield from (value for name, value in report.user_properties if name == wanted)
