"""The command ``cumae``."""

import sys

import click

from cumae.properties.commands.bench import bench
from cumae.properties.commands.fuzz import fuzz
from cumae.properties.commands.list import list_operations
from cumae.properties.commands.replay import replay


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """An oracle for the metadata that LLM serving engines hand to their attention kernels.

    Exit status: 0 all agree, 1 a disagreement, 2 the call or the machine is at fault.
    """


for command in (bench, fuzz, list_operations, replay):
    cli.add_command(command)


def main() -> None:
    """Run the command line; bad input is one line and exit status 2."""
    try:
        status = cli(standalone_mode=False)
    except ValueError as error:
        click.echo(f"cumae: {error}", err=True)
        sys.exit(2)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        click.echo("cumae: interrupted", err=True)
        sys.exit(130)
    sys.exit(status or 0)
