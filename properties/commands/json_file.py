"""``--json FILE`` of every command that has it: tried before anything runs, ``-`` is standard output."""

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

STDOUT = Path("-")
_ASIDE: ContextVar[int] = ContextVar("cumae_aside", default=1)
Command = Callable[..., int]


def json_file(text: str) -> Callable[[Command], Command]:
    """Return what gives a command the option ``--json FILE``, which it takes as ``file``.

    With ``-`` all that the command prints goes to standard error, so that standard output is JSON alone.
    """

    def decorate(command: Command) -> Command:
        @click.option(
            "--json",
            "file",
            type=click.Path(path_type=Path, allow_dash=True),
            help=f"Write {text} here as well; - is standard output, which then has nothing else.",
        )
        @wraps(command)
        def run(*, file: Path | None, **given: Any) -> int:
            if file == STDOUT:
                with _alone():
                    return command(file=file, **given)
            if file is not None:
                require_file("--json", file)
            return command(file=file, **given)

        return run

    return decorate


@contextmanager
def _alone() -> Iterator[None]:
    """Send to standard error what this process, and those that it starts, print."""
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


def write_json(file: Path, content: Any) -> None:
    """Write content as JSON. Raises ``ValueError`` where the file cannot be written."""
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    with writing("--json", file):
        if file == STDOUT:
            with open(_ASIDE.get(), "w", encoding="utf-8", closefd=False) as stream:
                stream.write(text)
        else:
            file.write_text(text, encoding="utf-8")
