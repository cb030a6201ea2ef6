"""One launch whose programs run side by side: a thread each, and a baton that one of them holds."""

import contextvars
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cumae.properties.interpreter.schedules import Schedule
from cumae.properties.interpreter.source_lines import source_line

Leave = Callable[[], Any]
Enter = Callable[[int, Any], None]
REPEATS = 4
"""A program that finds nothing new in so many accesses waits: the others have their turns first."""
MOST_IDLE = 2_000
"""Turns in which nothing new is found and nothing changes, until the programs are said to wait for ever."""
MOST_TURNS = 100_000


class WaitsForEver(Exception):
    """Raised in a kernel if every program that has not ended repeats its loads, and none changes anything."""


class TooManyTurns(Exception):
    """Raised in a kernel that does not end in a given order, although its programs go on changing memory."""


class Freed(BaseException):
    """Raised in the threads of a launch that is given up, to end them."""


@dataclass(slots=True, eq=False)
class _Program:
    """A program of a launch. ``last`` and ``next``: the lines between which it stands."""

    number: int
    run: Callable[[], None]
    baton: threading.Lock
    thread: threading.Thread | None = None
    state: Any = None
    last: str = ""
    next: str = ""
    is_done: bool = False
    repeats: int = 0
    seen: set[int] = field(default_factory=set)

    @property
    def waits(self) -> bool:
        """Whether it only repeats accesses, as a program that waits for another does."""
        return self.repeats >= REPEATS


@dataclass(frozen=True, slots=True)
class Switch:
    """A turn that passes from a program, between two of its lines, to another one at its line."""

    program: int
    last: str
    next: str
    other: int
    line: str

    def __str__(self) -> str:
        where = f"program {self.program} stands between {self.last} and {self.next}"
        return f"program {self.other} goes on at {self.line} while {where}"


class Launch:
    """The programs of a launch, which take turns as a schedule says.

    ``lines``: the lines before which the turn may pass, None for each access. ``leave`` returns what the
    running program keeps in shared places; ``enter`` puts the state of a program there again, or None at
    its beginning. ``switches`` gets the turns that were taken from a program in its midst.
    """

    def __init__(
        self,
        schedule: Schedule,
        lines: frozenset[str] | None,
        switches: list[Switch],
        programs: Sequence[Callable[[], None]],
        leave: Leave,
        enter: Enter,
    ) -> None:
        self.error: BaseException | None = None
        self._schedule, self._lines, self._switches = schedule, lines, switches
        self._leave, self._enter = leave, enter
        self._programs = [_Program(i, run, threading.Lock()) for i, run in enumerate(programs)]
        for program in self._programs:
            program.baton.acquire()
        self._current = self._programs[0]
        self._ended = threading.Event()
        self._is_freed = False
        self._idle = self._num_turns = 0
        self._float_errors: Any = np.geterr()

    def run(self) -> None:
        """Run the programs to their ends. Raises the first error of one."""
        try:
            self._resume(self._current)
            self._ended.wait()
        finally:  # an exception here is a time limit or an interrupt
            self.free()
        if self.error is not None:
            raise self.error

    def join(self) -> None:
        """Let program 0, which runs in this thread already, take turns with the others from now on."""
        self._current.thread = threading.current_thread()

    def end(self) -> None:
        """End program 0, which runs in this thread, and run the others to their ends."""
        self._programs[0].is_done = True
        if (chosen := self._chosen()) is not None:
            self._resume(chosen)
            self._ended.wait()
        if self.error is not None:
            raise self.error

    def free(self) -> None:
        """End all other threads."""
        self._release()
        for program in self._programs:
            if program.thread not in (None, threading.current_thread()):
                assert program.thread is not None
                program.thread.join(timeout=1)

    def _release(self) -> None:
        self._is_freed = True
        for program in self._programs:
            if program.thread not in (None, threading.current_thread()) and program.baton.locked():
                program.baton.release()

    def _resume(self, program: _Program) -> None:
        self._current = program
        if program.thread is None:
            body = contextvars.copy_context().run
            program.thread = threading.Thread(target=body, args=(self._run, program), daemon=True)
            program.thread.start()
        else:
            program.baton.release()

    def _run(self, program: _Program) -> None:
        try:
            self._enter(program.number, None)
            with np.errstate(**self._float_errors):
                program.run()
            program.is_done, self._idle = True, 0
            chosen = self._chosen()
        except Freed:
            return
        except BaseException as error:
            self.error = error
            self._release()
            chosen = None
        if chosen is None:
            self._ended.set()
        else:
            self._resume(chosen)

    def before(self) -> None:
        """Let another program run, if it is its turn."""
        if self._is_freed:
            raise Freed
        me, line = self._current, source_line()
        if not me.waits and self._lines is not None and line not in self._lines:
            return
        me.next = line
        chosen = self._chosen()
        if chosen is not None and chosen is not me:
            if me.last and chosen.thread is not None and not me.waits:
                switch = Switch(me.number, me.last, me.next, chosen.number, chosen.next)
                self._switches.append(switch)
            me.state = self._leave()
            self._resume(chosen)
            me.baton.acquire()
            if self._is_freed:
                raise Freed
            self._enter(me.number, me.state)
        me.last = line

    def _chosen(self) -> _Program | None:
        """Return the program whose turn it is, None at the end. Each first runs up to its first access."""
        ready = [program for program in self._programs if not program.is_done]
        if not ready:
            return None
        if new := next((program for program in ready if program.thread is None), None):
            return new
        self._num_turns += 1
        if self._num_turns > MOST_TURNS:
            raise TooManyTurns(f"a launch of {len(self._programs)} programs, after {MOST_TURNS:,} turns")
        awake = tuple(program.number for program in ready if not program.waits)
        if len(awake) > 1:
            return self._programs[self._schedule.next(awake, self._current.number)]
        if awake:
            return self._programs[awake[0]]
        self._idle += 1
        if self._idle > MOST_IDLE:
            who = " and ".join(f"program {program.number} at {program.next}" for program in ready[:3])
            raise WaitsForEver(f"{who}; no program changes what they wait for")
        return ready[self._idle % len(ready)]

    def after(self, addresses: Any, *, changed: bool) -> None:
        """Take note of an access of the running program."""
        if changed:
            self._idle = 0
            for program in self._programs:
                program.repeats = 0
                program.seen.clear()
            return
        me, key = self._current, hash(addresses.tobytes())
        if key in me.seen:
            me.repeats += 1
        else:
            me.seen.add(key)
            me.repeats = self._idle = 0
