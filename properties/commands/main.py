"""The command ``cumae``."""

import sys
import traceback
from importlib import import_module
from typing import Any, NoReturn

import click

from cumae.oracle.model.rules import did_you_mean, is_refusal, require_choice

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
INTERNAL = 3
"""Exit status of an error in cumae itself."""


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

    Exit status: 0 all agree, 1 a disagreement, 2 the call or the machine is at fault, 3 cumae itself is.
    """


_HELP: Any = getattr(click.exceptions, "NoArgsIsHelpError", ())
"""The error with which click 8.2 and later show the help of a command without arguments."""


_MEANT = dict.fromkeys(("--budget", "--duration", "--for", "--seconds", "--timeout"), "--time")
"""Options that a command does not have, and the one of another name that does the same."""


def _in_one_line(error: click.ClickException) -> str:
    """Return an error of click in one line, which names the option or argument, its value and the rule."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    path = context.command_path if context is not None else "cumae"
    if isinstance(error, click.NoSuchOption):
        known = {name for option in context.command.params for name in option.opts} if context else set()
        meant = _MEANT.get(error.option_name, "")
        near = (meant,) if meant in known else error.possibilities or ()
        hint = did_you_mean(meant if meant in known else error.option_name, near)
        return f"option = {error.option_name!r}{hint}, must be one of `{path} --help`"
    if isinstance(error, click.MissingParameter) and error.param is not None:
        return f"{error.param.human_readable_name} = None, must be given: `{path} --help`"
    return error.format_message()


def main() -> None:
    """Run the command line; bad input gives one line and exit status 2, an error in cumae itself 3."""
    try:
        status = cli(standalone_mode=False)
    except ValueError as error:
        if not is_refusal(error):
            _end_by(error)
        click.echo(f"cumae: {error}", err=True)
        sys.exit(2)
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "triton"):
            _end_by(error)
        click.echo(f"cumae: {error.name} is missing: `cumae doctor` says what to install", err=True)
        sys.exit(2)
    except click.ClickException as error:
        if isinstance(error, _HELP):
            error.show()
        else:
            click.echo(f"cumae: {_in_one_line(error)}", err=True)
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        click.echo("cumae: interrupted", err=True)
        sys.exit(130)
    except Exception as error:
        _end_by(error)
    sys.exit(status or 0)


def _end_by(error: Exception) -> NoReturn:
    """Print the traceback of an error that no input explains, and end with exit status 3."""
    traceback.print_exception(error)
    click.echo("cumae: the error above is one of cumae itself, not of the call", err=True)
    sys.exit(INTERNAL)
