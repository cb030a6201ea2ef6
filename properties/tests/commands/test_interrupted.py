"""Ctrl-C: each command says how far it was and keeps what it found."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cumae.fixtures.bugs import Bug
from cumae.oracle import Batch, Case, Request, from_json
from cumae.properties.bench.comparison import Compared
from cumae.properties.commands.progress import INTERRUPTED
from cumae.properties.faults.known_bugs import Hunt
from cumae.properties.results.verdict import Finding, Verdict
from cumae.properties.tests.helpers.command_line import AS_BROKEN, BROKEN, cumae

SMALLER = Case(Batch((Request(1, 1, (0,)),), 2))
KERNEL = "cumae.gpu_impl:write_position_ids"
COMPARE = ("compare", KERNEL, KERNEL, "--op", "position_ids")


@pytest.mark.parametrize("found", [False, True])
def test_compare(found: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*given: Any) -> None:
        done = given[-1]
        assert isinstance(done, Compared)
        done.cases = 7
        if found:
            done.difference = Finding("compare", "`position_ids[0]` differs", "rule"), SMALLER
        raise KeyboardInterrupt

    monkeypatch.setattr("cumae.properties.commands.compare.first_difference", interrupted)
    told = cumae(*COMPARE, cwd=tmp_path)
    assert told.returncode == INTERRUPTED
    if not found:
        assert told.stdout == "interrupted: 7 cases equal, every output bit for bit\n"
        return
    (file,) = (tmp_path / ".cumae" / "failures").glob("*.json")
    assert f"--case {file.relative_to(tmp_path)}" in told.stdout


def test_reduce(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cumae("fuzz", BROKEN, *AS_BROKEN, "--cases", "5", cwd=tmp_path).returncode == 1
    (file,) = (tmp_path / ".cumae" / "failures").glob("*.json")

    def interrupted(job: object, finding: Finding, tried: object, progress: Any) -> None:
        progress(3, (finding, SMALLER))
        raise KeyboardInterrupt

    monkeypatch.setattr("cumae.properties.commands.reduce.reduce_isolated", interrupted)
    told = cumae("reduce", str(file), "--out", "small.json", cwd=tmp_path)
    assert told.returncode == INTERRUPTED
    assert told.stdout.splitlines()[-1].startswith("interrupted: 3 cases tried in ")
    assert from_json(json.loads((tmp_path / "small.json").read_text())["case"]) == SMALLER


def test_replay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[int] = []

    def second_is_interrupted(*given: object, **how: object) -> Verdict:
        runs.append(1)
        if len(runs) == 2:
            raise KeyboardInterrupt
        return Verdict(KERNEL, "position_ids", "cumae", (), 1, 1)

    monkeypatch.setattr("cumae.properties.commands.replay._replayed", second_is_interrupted)
    files = [tmp_path / "one.json", tmp_path / "two.json", tmp_path / "three.json"]
    for file in files:
        requests = [{"context_len": 1, "query_len": 1, "block_ids": [0], "phase": "prefill"}]
        file.write_text(json.dumps({"version": 1, "batch": {"requests": requests, "block_size": 2}}))
    how = ("--op", "position_ids", "--dialect", "cumae", "--target", KERNEL)
    told = cumae("replay", *map(str, files), *how, cwd=tmp_path)
    assert told.returncode == INTERRUPTED
    assert told.stdout.splitlines()[-1] == f"interrupted in {files[1]}: 1 of 3 files replayed"


def test_bugs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def first_alone(bugs: list[Bug], *given: object) -> Iterator[tuple[int, Hunt]]:
        yield 1, Hunt(bugs[1], "caught", 3, 0.5)
        raise KeyboardInterrupt

    monkeypatch.setattr("cumae.properties.commands.bugs.hunts", first_alone)
    told = cumae("bugs", "--json", "bugs.json", cwd=tmp_path)
    assert told.returncode == INTERRUPTED
    assert "interrupted: 1 of " in told.stdout
    assert len(json.loads((tmp_path / "bugs.json").read_text())["bugs"]) == 1
