"""Isolated processes: each answers one call after the other, and what it told before a death is kept."""

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
"""Calls of workers, each of which may depend on the answers before; and what they come to."""
MOST_PROCESSES = 8
_POLL_SECONDS = 0.05


def asked(call: Call) -> Plan[Answer]:
    """Plan one call, which comes to its answer."""
    return (yield call)


def num_processes() -> int:
    """Return how many processes this machine has cores for, at most 8."""
    return min(MOST_PROCESSES, len(os.sched_getaffinity(0)))


class Processes(AbstractContextManager["Processes"]):
    """At most ``jobs`` processes at work, each with a worker of its own.

    ``entry``: module and name of what makes the worker from a ``Tell`` and ``arguments``, when a process
    starts; a worker whose ``is_lost`` is true is of no more use. ``environment``: what is added to it there.
    ``spares``: processes that wait, ready, for the death of another: so many from the start, and else as many
    as have died, at most ``jobs``. Under a sanitizer each call has a process of its own. ``num_dead``: how
    many were of no more use so far.
    """

    def __init__(
        self,
        entry: str,
        *arguments: object,
        jobs: int = 1,
        spares: int = 0,
        environment: Mapping[str, str] | None = None,
        sanitizer: Sanitizer | None = None,
    ) -> None:
        self._sanitizer = sanitizer or Sanitizer()
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
        """Return what a plan comes to."""
        ((_, value),) = self.each([plan])
        return value

    def each(self, plans: Sequence[Plan[T]]) -> Iterator[tuple[int, T]]:
        """Yield the number of each plan, begun in this order, and what it comes to.

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
            self._end(self._busy)  # where a plan has raised, nobody waits for the others
            self._busy.clear()

    def _go_on(self, number: int, plan: Plan[T], answer: Answer | None) -> Iterator[tuple[int, T]]:
        """Begin the next call of a plan, or yield what the plan comes to."""
        try:
            if answer is None:
                call = next(plan)
            elif answer.refused:
                call = plan.throw(ValueError(answer.refused))
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
        """Return the process that has waited longest, or else a new one."""
        while self._idle:
            process = self._idle.popleft()
            if process.is_alive:
                return process
            process.end()
        return Process(*self._start)

    def _put_away(self, process: Process, answer: Answer) -> Answer:
        """Keep a process for the next call, unless it is of no more use; return the answer, complete."""
        if answer.death or answer.is_lost or self._sanitizer.name:
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
