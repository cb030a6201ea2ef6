"""The pytest plugin: it chooses a device if asked, before anything imports triton, and nothing else."""

import pytest

OPTION_HELP = "where cumae's kernels run: auto, cpu (Triton's interpreter) or cuda"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--cumae-device`` and the ini value ``cumae_device``."""
    parser.getgroup("cumae").addoption("--cumae-device", default=None, help=OPTION_HELP)
    parser.addini("cumae_device", OPTION_HELP, default="")


def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Set the device when the option or the ini value names one; without either nothing is changed."""
    wanted = early_config.known_args_namespace.cumae_device or early_config.getini("cumae_device")
    if wanted:
        from cumae.properties.running.device import prepare

        try:
            prepare(wanted)
        except ValueError as error:
            raise pytest.UsageError(str(error)) from error
