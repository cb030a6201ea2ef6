"""Forked processes: variables, folder and descriptors are theirs, and they end with what they belong to."""

import os
import signal
import subprocess
import sys
from multiprocessing import Pipe
from pathlib import Path

import pytest

from cumae.properties.search.child import RESULT
from cumae.properties.search.nursery import Child, nursery

SHOWN = "cumae.properties.tests.search.test_nursery:shows"


class Shows:
    """A worker that tells what its process sees."""

    def variable(self, name: str) -> str | None:
        return os.environ.get(name)

    def folder(self, _: object) -> tuple[str, str]:
        return str(Path.cwd()), sys.path[0]

    def modules(self, _: object) -> list[str]:
        return [name for name in ("torch", "triton") if name in sys.modules]

    def ends(self, status: int) -> None:
        os._exit(status)

    def session(self, _: object) -> tuple[int, int]:
        return os.getpid(), os.getsid(0)


def shows(tell: object) -> Shows:
    return Shows()


class Asked:
    """A child and its connection."""

    def __init__(self, **variables: str) -> None:
        ours, theirs = Pipe()
        environment = {**os.environ, **variables}
        self.connection = ours
        self.child: Child = nursery(environment).child(theirs.fileno(), 1, None, environment)
        theirs.close()
        ours.send((SHOWN, ()))

    def says(self, method: str, argument: object = None) -> object:
        self.connection.send((method, argument))
        kind, answer, _ = self.connection.recv()
        assert kind == RESULT, answer
        return answer


def test_a_child_has_the_variables_and_the_folder_of_its_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Asked(SHOWN_HERE="1")
    monkeypatch.chdir(tmp_path)
    second = Asked(SHOWN_HERE="2")
    assert (first.says("variable", "SHOWN_HERE"), second.says("variable", "SHOWN_HERE")) == ("1", "2")
    assert second.says("folder") == (str(tmp_path), str(tmp_path))
    assert first.says("folder") != second.says("folder")


@pytest.mark.parametrize(("mode", "imported"), [("0", ["torch"]), ("1", ["torch", "triton"])])
def test_a_child_begins_with_triton_only_where_its_mode_is_known(mode: str, imported: list[str]) -> None:
    assert Asked(TRITON_INTERPRET=mode).says("modules") == imported


def test_a_child_leads_a_session_and_its_status_is_told() -> None:
    asked = Asked()
    assert asked.says("session") == (asked.child.pid, asked.child.pid)
    assert asked.child.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        asked.child.wait(0.01)
    asked.connection.send(("ends", 7))
    assert asked.child.wait(10.0) == asked.child.wait() == 7
    killed = Asked()
    os.kill(killed.child.pid, signal.SIGKILL)
    assert killed.child.wait(10.0) == -signal.SIGKILL


def test_children_end_with_the_process_that_forked_them_and_another_takes_its_place() -> None:
    environment = {**os.environ, "PYTHON_OF_ITS_OWN": "1"}
    first = nursery(environment)
    asked = Asked(PYTHON_OF_ITS_OWN="1")
    first._process.kill()
    first._process.wait()
    assert asked.child.wait(10.0) == -signal.SIGKILL
    with pytest.raises((EOFError, ConnectionResetError)):
        asked.connection.recv()
    assert nursery(environment) is not first
    assert Asked(PYTHON_OF_ITS_OWN="1").says("variable", "PYTHON_OF_ITS_OWN") == "1"


def test_a_large_environment_is_passed_whole() -> None:
    assert Asked(LARGE="x" * 100_000).says("variable", "LARGE") == "x" * 100_000
