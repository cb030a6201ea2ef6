"""The command ``cumae``."""

import sys
from importlib import import_module

import click

COMMANDS = {
    "bench": "bench",
    "bugs": "bugs",
    "compare": "compare",
    "doctor": "doctor",
    "draw": "draw",
    "engines": "engines",
    "fuzz": "fuzz",
    "lint": "lint",
    "list": "list_operations",
    "merge": "merge",
    "mutate": "mutate",
    "reduce": "reduce",
    "replay": "replay",
}
"""Each command's function, in the module of the command's name."""


class _Commands(click.Group):
    """Commands imported on first use, so that ``cumae doctor`` runs without torch."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"cumae.properties.commands.{cmd_name}")
        command: click.Command = getattr(module, COMMANDS[cmd_name])
        return command


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """An oracle for the metadata that LLM serving engines hand to their attention kernels.

    Exit status: 0 all agree, 1 a disagreement, 2 the call or the machine is at fault.
    """


def main() -> None:
    """Run the command line; bad input gives one line and exit status 2."""
    try:
        status = cli(standalone_mode=False)
    except ValueError as error:
        click.echo(f"cumae: {error}", err=True)
        sys.exit(2)
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "triton"):
            raise
        click.echo(f"cumae: {error.name} is missing: `cumae doctor` says what to install", err=True)
        sys.exit(2)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        click.echo("cumae: interrupted", err=True)
        sys.exit(130)
    sys.exit(status or 0)
