"""``--json FILE``, shared by the commands; checked before anything runs. ``-`` is standard output."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from typing import Any

import click

from cumae.properties.results.writable import require_file, writing
from cumae.properties.running.machine import measured

STDOUT = Path("-")
_ASIDE: ContextVar[int] = ContextVar("cumae_aside", default=1)
Command = Callable[..., int]


def json_file(text: str) -> Callable[[Command], Command]:
    """Return a decorator that adds the option ``--json FILE`` to a command, as its argument ``file``.

    With ``-`` everything else that the command prints goes to standard error.
    """

    def decorate(command: Command) -> Command:
        @click.option(
            "--json",
            "file",
            type=click.Path(path_type=Path, allow_dash=True),
            help=f"Also write {text} to this file; - is standard output, which then holds only JSON.",
        )
        @wraps(command)
        def run(*, file: Path | None, **given: Any) -> int:
            if file == STDOUT:
                with alone():
                    return command(file=file, **given)
            if file is not None:
                require_file("--json", file)
            return command(file=file, **given)

        return run

    return decorate


@contextmanager
def alone() -> Iterator[None]:
    """Redirect the standard output of this process and its children to standard error."""
    sys.stdout.flush()
    aside = os.dup(1)
    token = _ASIDE.set(aside)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(aside, 1)
        os.close(aside)
        _ASIDE.reset(token)


def write_measured(file: Path, **found: Any) -> None:
    """Write the machine, the command line and what it measured. Raises ``ValueError`` as ``write_json``."""
    write_json(file, measured(" ".join(["cumae", *sys.argv[1:]]), **found))


def write_json(file: Path, content: Any) -> None:
    """Write content as JSON. Raises ``ValueError`` if the file cannot be written."""
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    with writing("--json", file):
        if file == STDOUT:
            with open(_ASIDE.get(), "w", encoding="utf-8", closefd=False) as stream:
                stream.write(text)
        else:
            file.write_text(text, encoding="utf-8")
