"""Options and arguments that several commands share, with their validation.

They are imported for every ``--help``: what a validation needs is imported when it validates.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from cumae.oracle.model.rules import require, require_choice
from cumae.properties.commands.values import OneOf, Seconds, Whole
from cumae.properties.running.device import DEVICES
from cumae.properties.search.profiles import FAILURES, LIMIT_SECONDS

Command = Callable[..., Any]
Option = Callable[[Command], Command]
Names = tuple[str, ...]


def command(*examples: str, name: str | None = None) -> Callable[[Command], click.Command]:
    """Return the decorator that makes a function a command, whose help ends with examples."""
    heading = "Example:" if len(examples) == 1 else "Examples:"
    epilog = "\n".join(["\b", heading, *(f"  {example}" for example in examples)])
    return click.command(name, epilog=epilog)


def check_checks(checks: Names, field: str = "--check") -> None:
    """Raise ``ValueError`` for an unknown check. Imports torch, which takes a second, if a check is given."""
    if checks:
        from cumae.properties.checks import CHECKS

        for check in checks:
            require_choice(field, check, tuple(CHECKS))


def _known_operation(context: click.Context, option: click.Parameter, name: str | None) -> str | None:
    if name == "":  # of a workflow, whose test brings its own
        return None
    if name is not None:
        from cumae.properties.operations import OPERATIONS

        rule = "be left out for an operation of your own: put conforms_to(OPERATION) on TARGET"
        require(":" not in name, "--op", name, rule)
        require_choice("--op", name, tuple(OPERATIONS))
    return name


def _known_dialect(context: click.Context, option: click.Parameter, name: str | None) -> str | None:
    if name == "":
        default: str | None = option.default if isinstance(option.default, str) else None
        return default
    if name is not None:
        from cumae.properties.dialects import DIALECTS

        require_choice("--dialect", name, tuple(DIALECTS))
    return name


def _known_checks(context: click.Context, option: click.Parameter, names: Names) -> Names:
    check_checks(names)
    return names


def say_if_taken(target: str) -> None:
    """Say so if the function of a target is taken from a file that is not imported."""
    from cumae.properties.operations.targets import taken_because

    if because := taken_because(target):
        click.echo(f"cumae: {target} is taken from its file, which is not imported: {because}", err=True)


def _said(context: click.Context, option: click.Parameter, target: str | None) -> str | None:
    if target is not None:
        say_if_taken(target)
    return target


def operation(
    text: str = "The operation that TARGET computes; a test under conforms_to brings its own.",
) -> Option:
    """Return the option ``--op``."""
    return click.option("--op", "operation", callback=_known_operation, help=text)


def dialect(text: str = "How TARGET names its arguments.", default: str | None = "cumae") -> Option:
    """Return the option ``--dialect``; without a default, the file decides."""
    return click.option(
        "--dialect", default=default, show_default=default is not None, callback=_known_dialect, help=text
    )


def limit(text: str = "Seconds a case may take.", default: float = LIMIT_SECONDS) -> Option:
    """Return the option ``--limit``."""
    return click.option("--limit", type=Seconds(), default=default, show_default=True, help=text)


def cases(text: str, default: int | None = None) -> Option:
    """Return the option ``--cases``."""
    return click.option(
        "--cases", type=Whole(1), default=default, show_default=default is not None, help=text
    )


def isolate(text: str) -> Option:
    """Return the option ``--isolate/--no-isolate``; None if neither is given."""
    return click.option("--isolate/--no-isolate", default=None, help=text)


def verbose(text: str) -> Option:
    """Return the option ``--verbose``."""
    return click.option("--verbose", "-v", is_flag=True, help=text)


target = click.argument("target", required=False, callback=_said)
device = click.option(
    "--device", type=OneOf(DEVICES), default="auto", show_default=True, help="Where kernels run."
)
seed = click.option("--seed", type=Whole(0), default=0, show_default=True, help="Seed of the random cases.")
failures = click.option(
    "--failures",
    type=click.Path(path_type=Path),
    default=FAILURES,
    show_default=True,
    help="Folder for saved failures.",
)
database = click.option(
    "--database",
    default="",
    help="Failures that machines share, such as redis://host:6379/0; by default CUMAE_DATABASE or none.",
)
output_format = click.option(
    "--output-format",
    type=OneOf(("text", "github")),
    default="text",
    show_default=True,
    help="github also prints annotations, which a pull request shows.",
)
checks = click.option(
    "--check", "checks", multiple=True, callback=_known_checks, help="Run only this check; may be repeated."
)
coverage = click.option(
    "--coverage",
    type=click.Path(path_type=Path),
    help="Also write which lines of kernels ran to this file, as coverage.py does; on the CPU only.",
)
OF_A_CASE = "The operation, for a file that holds only a case."
INSTEAD_OF_THE_FILES = "How the target names its arguments; overrides the file."
