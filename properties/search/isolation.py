"""A job in a process of its own: a case is on disk before it runs, so a crash leaves it."""

import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from cumae.oracle import Case, Trace, tried_from_json, tried_to_json
from cumae.oracle.model.rules import require
from cumae.properties.running.sanitizer import Sanitizer

LIMIT_SECONDS = 60.0
START_SECONDS = 300.0
WARM_SECONDS = 10.0
_POLL_SECONDS = 0.02
_NOTES = ("case", "state", "running")
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a process ended: ``result`` if it wrote one, else ``reason`` and the case and state it noted.

    ``case`` is None where it died before the first one. ``running``: the other case that a check was
    calling on, if any; ``because``: how that call differed. ``told``: what a sanitizer said.
    """

    result: Json | None
    reason: str
    state: Json
    case: Case | Trace | None
    told: str = ""
    running: Case | None = None
    because: str = ""


class Notes:
    """The child's side: the case and the state are written where they outlive the process."""

    def __init__(self, folder: Path) -> None:
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        self.job: Json = json.loads((folder / "job.json").read_text())
        self._result, self._sign = folder / "result.json", folder / "job.json"
        self._files = [os.open(folder / name, os.O_CREAT | os.O_WRONLY) for name in _NOTES]
        self._case: Case | Trace | None = None
        self._running: tuple[Case | None, str] = (None, "")
        self._since = 0.0

    def write(self, case: Case | Trace, **state: object) -> None:
        """Note what is about to run; the clock of the time limit starts with each case.

        The first case also loads and compiles: it has ten seconds more.
        """
        if case is not self._case:
            self._since = time.monotonic() + (WARM_SECONDS if self._case is None else 0)
            self._case = case
            self._note(0, tried_to_json(case))
        self.running(None, "")
        self._note(1, {**state, "since": self._since})

    def running(self, other: Case | None, because: str) -> None:
        """Note the other case that a check is about to call on, None for its own, and why."""
        if (other, because) != self._running:
            self._running = (other, because)
            called = None if other is None else tried_to_json(other)
            self._note(2, {"case": called, "because": because})

    def _note(self, which: int, content: object) -> None:
        text = json.dumps(content).encode()
        try:
            os.pwrite(self._files[which], text, 0)
            os.ftruncate(self._files[which], len(text))
        except OSError:
            self._lost()

    def _lost(self) -> NoReturn:
        """End the process, which cannot say what it does: the parent finds its job gone."""
        self._sign.unlink()
        os._exit(1)

    def finish(self, result: Json) -> None:
        """Write the result."""
        try:
            self._result.write_text(json.dumps(result))
        except OSError:
            self._lost()


def run_apart(
    module: str,
    job: Json,
    limit: float = LIMIT_SECONDS,
    seen: Callable[[Json], None] | None = None,
    sanitizer: Sanitizer | None = None,
) -> Outcome:
    """Return how ``python -m module FOLDER`` ended, which finds its job there through ``Notes``.

    ``limit``: seconds a case may take. ``seen`` gets the child's state while it runs.
    """
    require(limit > 0, "limit", limit, "be > 0")
    sanitizer = sanitizer or Sanitizer()
    with tempfile.TemporaryDirectory(prefix="cumae-") as name:
        folder = Path(name)
        (folder / "job.json").write_text(json.dumps(job))
        errors = sanitizer.errors(folder)
        process = subprocess.Popen(
            [*sanitizer.before(folder), sys.executable, "-m", module, name],
            env=os.environ | sanitizer.environment,
            stderr=errors,
            start_new_session=True,
        )
        if errors is not None:
            os.close(errors)
        try:
            reason = _watched(process, folder, limit, seen)
        finally:
            _end(process)
        if not (folder / "job.json").exists():
            rule = "be a folder that can be written: a process has lost its notes"
            raise ValueError(f"TMPDIR = {str(folder.parent)!r}, must {rule}")
        result = _read(folder / "result.json")
        case, running = _read(folder / "case"), _read(folder / "running")
        other = tried_from_json(running["case"]) if running.get("case") else None
        return Outcome(
            result or None,
            "" if result else reason,
            _read(folder / "state"),
            tried_from_json(case) if case else None,
            sanitizer.told(folder),
            other if isinstance(other, Case) else None,
            running.get("because", ""),
        )


def _watched(
    process: subprocess.Popen[bytes], folder: Path, limit: float, seen: Callable[[Json], None] | None
) -> str:
    """Return how the process ended, having ended it where it took too long."""
    started, has_begun = time.monotonic(), False
    while True:
        try:
            status = process.wait(_POLL_SECONDS)
        except subprocess.TimeoutExpired:
            state = _read(folder / "state")
            has_begun = has_begun or bool(state)
            if state and time.monotonic() - state["since"] > limit:
                return f"did not return within {limit:g} s"
            if not has_begun and time.monotonic() - started > START_SECONDS:
                return f"did not start within {START_SECONDS:g} s"
            if state and seen is not None:
                seen(state)
            continue
        if status < 0:
            return f"the process died with signal {-status}"
        return f"the process ended with exit status {status}"


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and what it started: the session is its own."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def _read(file: Path) -> Json:
    """Return what a file holds; nothing where it is missing or half written."""
    try:
        content: Json = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return {}
    return content
