"""The parent's side of one isolated process."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import inf
from multiprocessing import Pipe
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cumae.oracle import Case, Trace
from cumae.oracle.model.rules import require
from cumae.properties.operations.own_answers import lengths_told
from cumae.properties.running.sanitizer import Sanitizer
from cumae.properties.search.child import CUT_OFF, ERROR, REFUSED, RESULT, STATE, NextStep
from cumae.properties.search.nursery import Child, nursery
from cumae.properties.search.printed import Printed

START_SECONDS = 300.0
WARM_SECONDS = 10.0
_END_SECONDS = 30.0
State = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a worker: the method and the argument.

    ``limit``: seconds from one case sent as ``tried``, or variant of it sent as ``other``, to the next; ten
    more for the first case, which also loads and compiles; ``patience``: seconds until that or the answer.
    ``seen`` gets the whole state so far, whenever a part of it arrives.
    """

    method: str
    argument: object
    limit: float = inf
    patience: float = START_SECONDS
    seen: Callable[[State], None] | None = None

    def __post_init__(self) -> None:
        require(self.limit > 0, "limit", self.limit, "be > 0")


@dataclass(frozen=True, slots=True)
class Answer:
    """The end of a call: its ``result``, or its ``death`` (how the process ended, in words).

    ``told``: the state that the process sent. ``is_lost``: whether the worker is of no more use.
    ``refused``, ``error``: the error that it raised. ``fault``: the report of a sanitizer. ``printed``: the
    last lines that it printed.
    """

    result: Any = None
    death: str = ""
    told: State = field(default_factory=dict)
    is_lost: bool = False
    refused: str = ""
    error: str = ""
    fault: str = ""
    printed: tuple[str, ...] = ()


class Process:
    """A process in a session of its own, started at once; it dies with this one."""

    def __init__(
        self, entry: str, arguments: tuple[object, ...], environment: Mapping[str, str], sanitizer: Sanitizer
    ) -> None:
        self._sanitizer = sanitizer
        self._folder = TemporaryDirectory(prefix="cumae-") if sanitizer.name else None
        folder = Path(self._folder.name) if self._folder else Path()
        errors = sanitizer.errors(folder)
        self.connection, theirs = Pipe()
        self._printed = Printed()
        variables, before = {**environment, **sanitizer.environment}, sanitizer.before(folder)
        if before:
            command = [*before, sys.executable, "-m", "cumae.properties.search.child"]
            self._process: subprocess.Popen[bytes] | Child = subprocess.Popen(
                command,
                env=variables,
                stdin=theirs.fileno(),
                stdout=self._printed.file,
                stderr=errors,
                start_new_session=True,
            )
        else:
            files = theirs.fileno(), self._printed.file, errors
            self._process = nursery(variables).child(*files, variables)
        theirs.close()
        if errors is not None:
            os.close(errors)
        self._send((entry, arguments))

    @property
    def is_alive(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def give(self, call: Call) -> None:
        """Start a call."""
        self._call = call
        self._printed.clear()
        self._told: dict[str, Any] = {}
        self._late_at = time.monotonic() + call.patience
        self._send((call.method, call.argument))

    def _send(self, message: object) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):  # the answer will report its death
            self.connection.send(message)

    def answer(self) -> Answer | None:
        """Return the end of the call, None while it runs; kill a process that takes too long."""
        has_ended = self._process.poll() is not None
        self._printed.trim()
        try:
            while self.connection.poll():
                kind, content, is_lost = self.connection.recv()
                if kind == STATE:
                    self._note(content)
                else:
                    name = {RESULT: "result", REFUSED: "refused", ERROR: "error"}[kind]
                    answer = Answer(**{name: content}, told=self._told, is_lost=is_lost)
                    return replace(answer, printed=self._printed.lines())
        except (EOFError, OSError):  # it is dead or dying, or has lost its connection
            return self._dead(_told_of(self._status()))
        if has_ended:
            return self._dead(_told_of(self._status()))
        if time.monotonic() > self._late_at:
            if self._told.get("defining"):
                told = f"return within {self._call.limit:g} s, for {lengths_told(_last_of(self._told))}"
                return replace(self._dead(""), refused=f"the operation's definition must {told}")
            if "tried" in self._told:
                return self._dead(f"did not return within {self._call.limit:g} s")
            return self._dead(f"no answer within {self._call.patience:g} s")
        return None

    def end(self, answer: Answer | None = None) -> Answer:
        """End the process and its children; return the answer with the report of a sanitizer."""
        self.connection.close()
        if self._sanitizer.name and answer is not None and not answer.death:
            with suppress(subprocess.TimeoutExpired):  # a regular exit completes the log
                self._process.wait(_END_SECONDS)
        self._kill()
        self._printed.close()
        answer = answer or Answer()
        if self._folder is not None:
            answer = replace(answer, fault=self._sanitizer.told(Path(self._folder.name)))
            self._folder.cleanup()
        return answer

    def _note(self, state: State) -> None:
        if "tried" in state:
            tried = state["tried"]
            if isinstance(tried, NextStep):
                state = {**state, "tried": self._told["tried"].then(tried.case)}
            warm = 0.0 if "tried" in self._told else WARM_SECONDS
            self._late_at = time.monotonic() + self._call.limit + warm
        elif "other" in state and "tried" in self._told:
            self._late_at = max(self._late_at, time.monotonic() + self._call.limit)
        self._told |= state
        if self._call.seen is not None:
            self._call.seen(self._told)

    def _dead(self, death: str) -> Answer:
        return Answer(death=death, told=self._told, is_lost=True, printed=self._printed.lines())

    def _status(self) -> int:
        """Return the exit status; kill a process that goes on without its connection."""
        try:
            return self._process.wait(_END_SECONDS if self._sanitizer.name else 1.0)
        except subprocess.TimeoutExpired:
            self._kill()
            return CUT_OFF

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def _last_of(told: State) -> Case:
    """Return the case that runs, or the last step of the trace that does."""
    tried = told.get("other") or told["tried"]
    return tried.steps[-1] if isinstance(tried, Trace) else tried


def _told_of(status: int) -> str:
    """Return how a process ended, in words."""
    if status == -signal.SIGKILL:
        return f"the process died with signal {-status}, as where memory runs out"
    if status < 0:
        return f"the process died with signal {-status}"
    if status == CUT_OFF:
        return "the process lost its connection: its file descriptors were closed"
    return f"the process ended with exit status {status}"
