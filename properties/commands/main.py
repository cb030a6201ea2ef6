"""The command ``cumae``."""

import sys
from importlib import import_module

import click

from cumae.oracle.model.rules import require_choice

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
    "mutate": "mutate",
    "reduce": "reduce",
    "replay": "replay",
}
"""Each command's function, in the module of the command's name."""


class _Commands(click.Group):
    """Commands imported on first use; ``usage`` alone serves ``--help``, what runs is imported later."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"cumae.properties.commands.usage.{cmd_name}")
        command: click.Command = getattr(module, COMMANDS[cmd_name])
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not args[0].startswith("-"):
            require_choice("COMMAND", args[0], tuple(COMMANDS))
        return super().resolve_command(ctx, args)


def _print_version(context: click.Context, option: click.Parameter, is_given: bool) -> None:
    if is_given:
        from importlib.metadata import version

        click.echo(f"cumae {version('cumae')}")
        context.exit()


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="\b\nExample:\n  cumae fuzz --op slot_mapping --time 10s",
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_version,
    help="Print the version and exit.",
)
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
