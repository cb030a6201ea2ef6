"""Isolated processes: each answers one call after the other; the state it sent survives its death."""

import os
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from multiprocessing.connection import wait
from typing import Any, TypeVar

from cumae.properties.running.sanitizer import Sanitizer
from cumae.properties.search.process import Answer, Call, Process

T = TypeVar("T")
Plan = Generator[Call, Answer, T]
"""A generator that yields calls of workers, each of which may depend on earlier answers, and a result."""
MOST_PROCESSES = 8
_POLL_SECONDS = 0.05


def asked(call: Call) -> Plan[Answer]:
    """Plan one call; the result is its answer."""
    return (yield call)


def num_processes() -> int:
    """Return the number of usable cores, at most 8."""
    return min(MOST_PROCESSES, len(os.sched_getaffinity(0)))


class Processes(AbstractContextManager["Processes"]):
    """At most ``jobs`` busy processes, each with a worker of its own.

    ``entry``: module and name of the function that makes the worker from a ``Tell`` and ``arguments``
    when a process starts; a worker whose ``is_lost`` is true is replaced. ``environment``: variables added
    in each process. ``spares``: the least number of ready processes that wait to replace a dead one; it
    grows with the deaths, up to ``jobs``. ``alone``: each call has a process of its own, as it has under a
    sanitizer.
    ``num_dead``: the number of processes that ended with a call so far.
    """

    def __init__(
        self,
        entry: str,
        *arguments: object,
        jobs: int = 1,
        spares: int = 0,
        environment: Mapping[str, str] | None = None,
        sanitizer: Sanitizer | None = None,
        alone: bool = False,
    ) -> None:
        self._sanitizer = sanitizer or Sanitizer()
        self._alone = alone or bool(self._sanitizer.name)
        self._start = (entry, arguments, os.environ | (environment or {}), self._sanitizer)
        self._jobs = jobs
        self._spares = spares
        self.num_dead = 0
        self._idle: deque[Process] = deque()
        self._busy: dict[Process, tuple[int, Plan[Any]]] = {}

    def __exit__(self, *exception: object) -> None:
        self._end((*self._busy, *self._idle))
        self._busy.clear()
        self._idle.clear()

    def run(self, plan: Plan[T]) -> T:
        """Run a plan and return its result."""
        ((_, value),) = self.each([plan])
        return value

    def each(self, plans: Sequence[Plan[T]]) -> Iterator[tuple[int, T]]:
        """Run plans, started in this order; yield the number and the result of each as it ends.

        A worker's ``ValueError`` is raised in its plan; any other error of a worker as ``RuntimeError``.
        """
        left = deque(enumerate(plans))
        try:
            while left or self._busy:
                while left and len(self._busy) < self._jobs:
                    number, plan = left.popleft()
                    yield from self._go_on(number, plan, None)
                self._keep_spares()
                wait([process.connection for process in self._busy], _POLL_SECONDS)
                for process in tuple(self._busy):
                    answer = process.answer()
                    if answer is not None:
                        number, plan = self._busy.pop(process)
                        yield from self._go_on(number, plan, self._put_away(process, answer))
        finally:
            self._end(self._busy)  # if a plan has raised, the others have no reader
            self._busy.clear()

    def _go_on(self, number: int, plan: Plan[T], answer: Answer | None) -> Iterator[tuple[int, T]]:
        """Start the next call of a plan, or yield its result."""
        try:
            if answer is None:
                call = next(plan)
            elif answer.refused:
                call = plan.throw(_raised(ValueError(answer.refused)))
            elif answer.error:
                call = plan.throw(RuntimeError(answer.error))
            else:
                call = plan.send(answer)
        except StopIteration as end:
            yield number, end.value
            return
        process = self._ready()
        process.give(call)
        self._busy[process] = number, plan

    def _ready(self) -> Process:
        """Return the first idle process that is alive, or a new one."""
        while self._idle:
            process = self._idle.popleft()
            if process.is_alive:
                return process
            process.end()
        return Process(*self._start)

    def _put_away(self, process: Process, answer: Answer) -> Answer:
        """Keep a process for the next call, or end it if it is lost; return the complete answer."""
        if answer.death or answer.is_lost or self._alone:
            self.num_dead += 1
            return process.end(answer)
        self._idle.appendleft(process)
        return answer

    @staticmethod
    def _end(processes: Iterable[Process]) -> None:
        for process in processes:
            process.end()

    def _keep_spares(self) -> None:
        wanted = max(self._spares, min(self.num_dead, self._jobs))
        while len(self._idle) < wanted:
            self._idle.append(Process(*self._start))


def _raised(error: ValueError) -> ValueError:
    """Return an error as one that cumae raised, which its traceback says."""
    try:
        raise error
    except ValueError as raised:
        return raised
