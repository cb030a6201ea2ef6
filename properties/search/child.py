"""The child's side of ``processes``: make one worker and answer its calls until the parent is gone."""

import ctypes
import os
import signal
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from multiprocessing.connection import Connection
from typing import Any, Literal, Protocol

from cumae.oracle import Case
from cumae.oracle.model.rules import is_refusal
from cumae.properties.search.printed import print_by_lines

CUT_OFF = 121
"""Exit status of a process that lost the connection to its parent."""
Kind = Literal["state", "result", "refused", "error"]
STATE: Kind = "state"
RESULT: Kind = "result"
REFUSED: Kind = "refused"
ERROR: Kind = "error"
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG


@dataclass(frozen=True, slots=True)
class NextStep:
    """The next step of the trace that a process told of last; sent alone, because traces grow long."""

    case: Case


class Tell(Protocol):
    """Sends the state of this process to the parent, by name; names that are not sent keep their value.

    The state has left this process when the call returns. Sending ``tried`` or ``other`` restarts the time
    limit; a ``NextStep`` continues the trace that was sent last.
    """

    def __call__(self, **state: object) -> None:
        """Send some values of the state."""


def main() -> None:
    """Make the worker that the parent asks for, then call its methods on request."""
    die_with_parent()
    print_by_lines()
    connection = _connection_of_parent()

    def tell(**state: object) -> None:
        try:
            connection.send((STATE, state, False))
        except OSError:  # the function under test has closed this process's files
            os._exit(CUT_OFF)

    try:
        entry, arguments = connection.recv()
        module, _, name = entry.rpartition(":")
        made, worker = _tried(lambda: getattr(import_module(module), name)(tell, *arguments))
        while True:
            method, argument = connection.recv()
            kind, answer = made, worker
            if made == RESULT:
                kind, answer = _tried(partial(getattr(worker, method), argument))
            is_lost = made != RESULT or getattr(worker, "is_lost", False)
            try:
                connection.send((kind, answer, is_lost))
            except OSError:
                os._exit(CUT_OFF)
    except EOFError:
        return


def die_with_parent() -> None:
    """Have the system end this process when its parent ends."""
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)


def _tried(call: Callable[[], Any]) -> tuple[Kind, Any]:
    """Return the kind of answer of a call, and its result or its error in words."""
    try:
        return RESULT, call()
    except Exception as error:
        return (REFUSED, str(error)) if is_refusal(error) else (ERROR, traceback.format_exc())


def _connection_of_parent() -> Connection:
    """Return the connection on standard input, and make standard input empty.

    Standard input also survives a memory checker, which starts this process itself.
    """
    connection = Connection(os.dup(0))
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    return connection


if __name__ == "__main__":
    main()
