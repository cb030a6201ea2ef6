"""How commands are called: help without what a command runs, with an example; unknown names get a hint."""

import inspect
import subprocess
import sys
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import click
import pytest

from cumae.properties.commands.main import COMMANDS, cli
from cumae.properties.tests.helpers.command_line import cumae

HEAVY = ("hypothesis", "numpy", "pytest", "rich", "torch", "triton")


def _usage(command: str) -> click.Command:
    found = cli.get_command(click.Context(cli), command)
    assert isinstance(found, click.Command)
    return found


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], *([name, "--help"] for name in COMMANDS)])
def test_help_imports_nothing_that_a_command_runs(arguments: list[str]) -> None:
    code = (
        "import sys; from cumae.properties.commands.main import cli; "
        f"cli({arguments!r}, standalone_mode=False); "
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("command", COMMANDS)
def test_a_help_ends_with_an_example_that_parses(command: str) -> None:
    usage = _usage(command)
    assert usage.epilog is not None
    examples = [line.split()[2:] for line in usage.epilog.splitlines() if line.startswith("  cumae ")]
    assert examples
    for words in examples:
        parser = usage.make_parser(click.Context(usage))
        parser.parse_args([*words])


@pytest.mark.parametrize("command", COMMANDS)
def test_what_runs_takes_what_the_usage_gives(command: str) -> None:
    module = import_module(f"cumae.properties.commands.{command}")
    runs = getattr(module, COMMANDS[command])
    given = {parameter.name for parameter in _usage(command).params}
    assert set(inspect.signature(runs).parameters) == given


def test_the_version_is_the_installed_one(tmp_path: Path) -> None:
    told = cumae("--version", cwd=tmp_path)
    assert (told.returncode, told.stdout) == (0, f"cumae {version('cumae')}\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["fuz"], "COMMAND = 'fuz' (did you mean 'fuzz'?), must be one of "),
        (["fuzz", "--op", "slot_maping"], "--op = 'slot_maping' (did you mean 'slot_mapping'?), must be one"),
        (["fuzz", "--dialect", "vLLM"], "--dialect = 'vLLM' (did you mean 'vllm'?), must be one of "),
        (["fuzz", "--check", "agree"], "--check = 'agree' (did you mean 'agrees'?), must be one of "),
        (["engines", "sglan"], "NAME = 'sglan' (did you mean 'sglang'?), must be one of "),
        (["bugs", "--report", "vlm#36580"], "--report = 'vlm#36580' (did you mean 'vllm#36580'?), must be"),
        (["fuzz", "--op", "rotary"], "--op = 'rotary', must be one of "),
    ],
)
def test_an_unknown_name_is_one_line_with_the_name_that_may_be_meant(
    arguments: list[str], said: str, tmp_path: Path
) -> None:
    refused = cumae(*arguments, cwd=tmp_path)
    assert refused.returncode == 2
    assert refused.stderr.startswith(f"cumae: {said}")
    assert refused.stderr.count("\n") == 1


def test_an_unknown_option_gets_a_hint(tmp_path: Path) -> None:
    refused = cumae("fuzz", "--tim", "3", cwd=tmp_path)
    assert refused.returncode == 2
    assert "--time" in refused.stderr
