"""Processes that begin where long imports have ended: one imports the libraries, and forks the others.

It never begins to use a GPU itself, so each of the others may.
"""

import atexit
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress

_BOUND = ("CI", "KMP_", "LD_", "MKL_", "OMP_", "OPENBLAS_", "PYTHON", "TORCH", "TRITON", "HYPOTHESIS")
"""Beginnings of variables that take effect at an import: a process of its own for each set of them."""
_MOST_BYTES = 2**20
_nurseries: dict[tuple[int, tuple[tuple[str, str], ...]], "Nursery"] = {}


class Nursery:
    """The parent's side of the process that forks. It dies with this process, and its children with it."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket, self._lock = ours, threading.Lock()
        self._ended: dict[int, int] = {}
        command = [sys.executable, "-m", "cumae.properties.search.nursery"]
        self._process = subprocess.Popen(
            command, env=dict(environment), stdin=theirs.fileno(), start_new_session=True
        )
        theirs.close()
        atexit.register(self._end)

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._socket.close()

    @property
    def is_alive(self) -> bool:
        """Whether it can fork another process."""
        return self._process.poll() is None

    def child(self, stdin: int, stdout: int, stderr: int | None, environment: Mapping[str, str]) -> "Child":
        """Fork a process that runs ``child.main`` in a session of its own, in this folder.

        ``stdin``, ``stdout``, ``stderr``: its descriptors, None for this process's; ``environment``: all its
        variables.
        """
        asked = json.dumps({"folder": os.getcwd(), "environment": dict(environment)}).encode()
        with self._lock:
            descriptors = [stdin, stdout, 2 if stderr is None else stderr]
            socket.send_fds(self._socket, [len(asked).to_bytes(8, "big")], descriptors)
            for start in range(0, len(asked), _MOST_BYTES // 16):
                self._socket.send(asked[start : start + _MOST_BYTES // 16])
            while (born := self._told()) is None:
                pass
        return Child(self, born)

    def status(self, pid: int, timeout: float) -> int | None:
        """Return the exit status of a child as ``Popen`` has it, None if it runs on for so many seconds."""
        deadline = time.monotonic() + timeout
        with self._lock:
            while pid not in self._ended:
                ready, _, _ = select.select([self._socket], [], [], max(0.0, deadline - time.monotonic()))
                if not ready:
                    return None
                self._told()
            return self._ended[pid]

    def _told(self) -> int | None:
        """Read one message: return the id of a new child, or note the status of one that has ended."""
        message = self._socket.recv(4096)
        if not message:  # the nursery is gone, and its children with it
            raise ConnectionResetError("the process that forks has ended")
        told = json.loads(message)
        if "born" in told:
            return int(told["born"])
        self._ended[told["ended"]] = told["status"]
        return None


class Child:
    """A forked process, with the part of ``Popen`` that its owner needs."""

    def __init__(self, nursery: Nursery, pid: int) -> None:
        self.pid = pid
        self._nursery = nursery
        self._status: int | None = None

    def poll(self) -> int | None:
        """Return the exit status, None while the process runs."""
        return self._ask(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status once the process has ended. Raises ``subprocess.TimeoutExpired``."""
        status = self._ask(1e9 if timeout is None else timeout)
        if status is None:
            raise subprocess.TimeoutExpired("cumae.properties.search.child", timeout or 0.0)
        return status

    def _ask(self, timeout: float) -> int | None:
        if self._status is None:
            try:
                self._status = self._nursery.status(self.pid, timeout)
            except ConnectionResetError:
                self._status = -signal.SIGKILL
        return self._status


def nursery(environment: Mapping[str, str]) -> Nursery:
    """Return the nursery of this process for an environment, a new one if there is none."""
    bound = tuple(sorted(item for item in environment.items() if item[0].startswith(_BOUND)))
    key = os.getpid(), bound
    if key not in _nurseries or not _nurseries[key].is_alive:
        _nurseries[key] = Nursery(environment)
    return _nurseries[key]


def main() -> None:
    """Import what takes long, then fork a child for each request until the parent is gone."""
    from cumae.properties.search.child import die_with_parent

    die_with_parent()
    import cumae.properties.search.child_search  # noqa: F401  # and torch with it

    if os.environ.get("TRITON_INTERPRET") == "1":  # the mode is fixed at the import; else a child chooses
        with suppress(ImportError):  # told by the child that needs it
            import triton.runtime.interpreter  # noqa: F401

    gc.freeze()  # no child searches what was imported here for garbage
    asked = socket.socket(fileno=os.dup(0))
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    watched: list[socket.socket | int] = [asked, woken]
    while True:
        ready, _, _ = select.select(watched, [], [])
        if woken in ready:
            os.read(woken, 4096)
        _bury(asked)
        if asked in ready:
            header, descriptors, _, _ = socket.recv_fds(asked, 8, 3)
            if not header:
                return
            size, told = int.from_bytes(header, "big"), b""
            while len(told) < size:
                told += asked.recv(_MOST_BYTES)
            _fork(asked, json.loads(told), descriptors)


def _bury(asked: socket.socket) -> None:
    """Tell the status of each child that has ended."""
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            asked.send(json.dumps({"ended": pid, "status": os.waitstatus_to_exitcode(status)}).encode())


def _fork(asked: socket.socket, wanted: Mapping[str, object], descriptors: list[int]) -> None:
    """Fork a child; tell its id once it leads a session, so that all of it can be killed."""
    is_ready, ready = os.pipe()
    pid = os.fork()
    if pid == 0:
        _live(wanted, descriptors, ready)
    for descriptor in (ready, *descriptors):
        os.close(descriptor)
    os.read(is_ready, 1)
    os.close(is_ready)
    asked.send(json.dumps({"born": pid}).encode())


def _live(wanted: Mapping[str, object], descriptors: list[int], ready: int) -> None:
    """Be the child: take descriptors, variables and folder, and run until its work is done."""
    from cumae.properties.search import child

    status = 1
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for place, descriptor in enumerate(descriptors):
            os.dup2(descriptor, place)
        os.write(ready, b"1")
        os.closerange(3, 256)
        environment, folder = wanted["environment"], str(wanted["folder"])
        assert isinstance(environment, dict)
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(folder)
        sys.path[0] = folder
        child.main()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    main()
