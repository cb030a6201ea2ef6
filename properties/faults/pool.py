"""Processes that judge mutants: one that dies takes its mutant with it, and no other."""

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

_POLL_SECONDS = 0.5
_AT_WORK = object()
_CONTEXT = multiprocessing.get_context("spawn")


@dataclass(frozen=True, slots=True)
class Died:
    """What became of a process instead of an answer."""

    reason: str


@dataclass(slots=True)
class _Worker:
    process: BaseProcess
    pipe: Connection
    task: int = -1
    since: float = 0.0
    is_lost: bool = False


class Pool:
    """``jobs`` processes, each with a judge of its own that ``make`` returns in it.

    ``limit``: seconds that one answer may take before its process is ended. ``interpret``: whether Triton
    interprets there.
    """

    def __init__(self, make: Callable[[], Any], jobs: int, limit: float, *, interpret: bool) -> None:
        self._make = make
        self._jobs = jobs
        self._limit = limit
        self._interpret = interpret
        self._workers: list[_Worker] = []

    def each(self, method: str, tasks: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """Yield the number of each task and what the judge's method returns for it, or ``Died``.

        Raises ``RuntimeError`` where a judge cannot be made, or its method raises.
        """
        left = list(range(len(tasks)))[::-1]
        while len(self._workers) < min(self._jobs, len(tasks)):
            self._workers.append(self._started())
        for worker in self._workers:
            self._give(worker, method, tasks, left)
        while any(worker.task >= 0 for worker in self._workers):
            busy = [worker for worker in self._workers if worker.task >= 0]
            ready = wait([worker.pipe for worker in busy], _POLL_SECONDS)
            for worker in busy:
                answer = self._answer(worker, worker.pipe in ready)
                if answer is _AT_WORK:
                    continue
                number, worker.task = worker.task, -1
                if isinstance(answer, Died) or worker.is_lost:
                    worker.process.kill()
                    worker.process.join()
                    self._workers[self._workers.index(worker)] = worker = self._started()
                self._give(worker, method, tasks, left)
                yield number, answer

    def close(self) -> None:
        """End the processes."""
        for worker in self._workers:
            worker.process.kill()
            worker.process.join()
        self._workers = []

    def _answer(self, worker: _Worker, is_ready: bool) -> Any:
        """Return what a process sent, ``_AT_WORK`` while there is nothing."""
        if not is_ready:
            if time.monotonic() - worker.since < self._limit:
                return _AT_WORK
            worker.process.kill()
            worker.process.join()
            return Died(f"no answer within {self._limit:g} s")
        try:
            kind, answer, worker.is_lost = worker.pipe.recv()
        except (EOFError, ConnectionResetError):
            worker.process.join()
            return Died(f"the process died with exit status {worker.process.exitcode}")
        if kind == "error":
            raise RuntimeError(answer)
        return answer

    def _give(self, worker: _Worker, method: str, tasks: Sequence[Any], left: list[int]) -> None:
        if left:
            worker.task, worker.since = left.pop(), time.monotonic()
            worker.pipe.send((method, tasks[worker.task]))

    def _started(self) -> _Worker:
        here, there = _CONTEXT.Pipe()
        process = _CONTEXT.Process(target=_serve, args=(there, self._make), daemon=True)
        with _environment(TRITON_INTERPRET="1" if self._interpret else "0", OMP_NUM_THREADS="1"):
            process.start()
        there.close()
        return _Worker(process, here)


def _serve(pipe: Connection, make: Callable[[], Any]) -> None:
    """Answer until the pipe is closed, saying each time whether the judge is of no more use."""
    import traceback

    judge = None
    while True:
        try:
            method, task = pipe.recv()
        except EOFError:
            return
        try:
            judge = make() if judge is None else judge
            answer = getattr(judge, method)(task)
            pipe.send(("answer", answer, getattr(judge, "is_lost", False)))
        except Exception:  # told to the parent, which raises it
            pipe.send(("error", traceback.format_exc(), True))
            return


@contextmanager
def _environment(**changed: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in changed}
    os.environ.update(changed)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
