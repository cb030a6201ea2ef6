"""A file that cannot be written is refused before anything runs; an unsaved verdict is still reported."""

import errno
import json
import os
import sys
from pathlib import Path
from subprocess import run
from typing import Any

import pytest

import cumae
from cumae.oracle import Batch, Case, Request
from cumae.properties.results import failure_file
from cumae.properties.results.explain import explain
from cumae.properties.results.writable import require_file, require_folder
from cumae.properties.running.device import prepare
from cumae.properties.search.budget import Budget
from cumae.properties.search.isolated import search_isolated
from cumae.properties.search.job import Job
from cumae.properties.tests.functions import wrong_on_purpose as wrong
from cumae.properties.tests.helpers.command_line import AS_BROKEN, BROKEN, cumae_process
from cumae.properties.tests.helpers.command_line import cumae as command
from cumae.properties.tests.pytest_plugin.test_conformance import FILL
from cumae.properties.tests.pytest_plugin.test_plugin import run_pytest, write_test

DEVICE = prepare("auto")
FUZZ = ("fuzz", BROKEN, *AS_BROKEN, "--cases", "3")
COMPARE = ("compare", "cumae.gpu_impl:write_position_ids", "cumae.gpu_impl:write_position_ids")
NO_ROOM = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def no_room(*arguments: Any, **more: Any) -> None:
    raise NO_ROOM


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        ((*FUZZ, "--json"), "--json"),
        ((*FUZZ, "--failures"), "--failures"),
        (("bugs", "--json"), "--json"),
        (("mutate", "--json"), "--json"),
        (("lint", "--json"), "--json"),
        (("bench", "--json"), "--json"),
        ((*COMPARE, "--op", "position_ids", "--failures"), "--failures"),
        (("reduce", "case.json", "--out"), "--out"),
        (("draw", "case.json", "--svg"), "--svg"),
        (("draw", "case.json", "--html"), "--html"),
    ],
)
def test_a_path_that_cannot_be_written_is_refused_before_anything_runs(
    arguments: tuple[str, ...], option: str, tmp_path: Path
) -> None:
    case = {"requests": [{"context_len": 1, "query_len": 1, "block_ids": [0]}], "block_size": 2}
    (tmp_path / "case.json").write_text(json.dumps({"version": 1, "batch": case}))
    (tmp_path / "file").write_text("")
    before = sorted(tmp_path.iterdir())
    refused = command(*arguments, "file/inner", cwd=tmp_path)
    assert refused.returncode == 2
    kind = "folder" if option == "--failures" else "file"
    line = f"cumae: {option} = 'file/inner', must be a {kind} that can be written: Not a directory\n"
    assert (refused.stderr, refused.stdout) == (line, "")
    assert sorted(tmp_path.iterdir()) == before


def test_a_full_disk_costs_the_figures_and_not_the_verdict(tmp_path: Path) -> None:
    told = command(*FUZZ, "--no-isolate", "--json", "/dev/full", cwd=tmp_path)
    assert told.returncode == 2
    assert "`ke[0]` differs from the oracle" in told.stdout
    line = "cumae: --json = '/dev/full', must be a file that can be written: No space left on device\n"
    assert told.stderr == line


def test_a_failure_that_cannot_be_saved_is_told(tmp_path: Path) -> None:
    start = "from cumae.properties.results import failure_file; import errno\n"
    start += f"def full(*given): raise OSError({errno.ENOSPC}, 'No space left on device')\n"
    start += "failure_file.write_failure = full\n"
    start += "from cumae.properties.commands.main import main; main()"
    told = run(
        [sys.executable, "-c", start, *FUZZ, "--no-isolate"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert told.returncode == 2
    assert "`ke[0]` differs from the oracle" in told.stdout
    assert "not saved: failures = '.cumae/failures', must be a folder that can be written" in told.stdout
    line = "cumae: --failures = '.cumae/failures', must be a folder that can be written: No space left"
    assert told.stderr == f"{line} on device\n"


def test_check_refuses_its_folder_and_keeps_a_verdict_it_cannot_save(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for folder in (file, file / "inner"):
        with pytest.raises(ValueError, match=r"save_to = '.*', must be a folder that can be written: Not"):
            cumae.check(wrong.one_too_far, "position_ids", save_to=folder)
    monkeypatch.setattr(failure_file, "write_failure", no_room)
    verdict = cumae.check(wrong.one_too_far, "position_ids", save_to=tmp_path / "new")
    assert verdict.failure is not None and verdict.failure.file is None
    assert "not saved: failures = " in explain(verdict)
    assert "reproduce: cumae replay" not in explain(verdict)
    assert "without a file: cumae replay 'cumae1:" in explain(verdict)


def test_pytest_refuses_a_folder_that_is_asked_for_and_tells_a_verdict_otherwise(tmp_path: Path) -> None:
    body = '\n@conforms_to("position_ids", checks=("agrees",))\ndef test_positions(context_lens, query_lens, '
    body += "position_ids):\n    fill(context_lens, query_lens, position_ids, 1)\n"
    write_test(tmp_path, FILL + body)
    (tmp_path / ".cumae").write_text("")
    refused = run_pytest(tmp_path, "--cumae-device", "cpu", "--cumae-failures", ".cumae/failures")
    assert refused.returncode == 4
    line = "ERROR: --cumae-failures = '.cumae/failures', must be a folder that can be written: Not a dir"
    assert line in refused.stdout + refused.stderr
    told = run_pytest(tmp_path, "--cumae-device", "cpu")
    assert told.returncode == 1
    assert "`position_ids[0]` differs from the oracle" in told.stdout
    assert "not saved: failures = " in told.stdout


def test_json_on_standard_output_is_json_alone_and_says_what_was_found(tmp_path: Path) -> None:
    told = cumae_process(*FUZZ, "--json", "-", cwd=tmp_path)
    assert told.returncode == 1
    run_of = json.loads(told.stdout)
    assert {"seed", "shard", "torch", "triton", "python", "device"} <= run_of.keys()
    (verdict,) = run_of["verdicts"]
    failure = verdict["failure"]
    assert verdict["status"] == "disagrees"
    assert {name: failure[name] for name in ("check", "output", "index", "expected", "actual")} == {
        "check": "agrees",
        "output": "ke",
        "index": 0,
        "expected": "2",
        "actual": "1",
    }
    assert (failure["count"], failure["total"], failure["request"], failure["token"]) == (1, 1, 0, 0)
    assert failure["case"]["batch"]["requests"] == [{"context_len": 1, "query_len": 1, "block_ids": [0]}]
    assert (tmp_path / failure["file"]).is_file()
    assert "disagrees with causal_windows: agrees" in told.stderr
    good = ("cumae.gpu_impl:write_position_ids", "--op", "position_ids", "--cases", "3")
    agrees = json.loads(cumae_process("fuzz", *good, "--no-isolate", "--json", "-", cwd=tmp_path).stdout)
    assert [one["failure"] for one in agrees["verdicts"]] == [None]
    assert {"seed", "torch"} <= agrees.keys()


@pytest.mark.parametrize("how", ["--isolate", "--no-isolate"])
def test_what_a_function_prints_is_not_in_the_json(how: str, tmp_path: Path) -> None:
    lines = ["import os", "def kernel(context_lens, position_ids):", "    print('noise')"]
    lines += ["    os.system('echo more')"]
    (tmp_path / "loud.py").write_text("\n".join((*lines, "    position_ids.fill_(-7)\n")))
    target = ("loud:kernel", "--op", "position_ids", "--check", "agrees", "--cases", "1")
    told = cumae_process("fuzz", *target, how, "--json", "-", cwd=tmp_path)
    assert told.returncode == 1
    assert json.loads(told.stdout)["verdicts"][0]["failure"]["actual"] == "-7"
    assert "noise" in told.stderr and "more" in told.stderr


def test_a_process_that_can_write_no_file_is_no_failure_of_the_function() -> None:
    target = "cumae.properties.tests.functions.crashing:fills_the_disk"
    job = Job(
        target=target,
        operation="position_ids",
        device=DEVICE,
        limit=60,
        budget=Budget(0),
        checks=("agrees",),  # on a GPU its temporaries are another check's finding
        cases=tuple(Case(Batch((Request(0, n, (3,)),), 4)) for n in (1, 2)),
    )
    verdict = search_isolated(job)
    assert verdict.ok and verdict.cases == 2


def test_trying_a_path_leaves_nothing_behind(tmp_path: Path) -> None:
    require_folder("--failures", tmp_path / "a" / "b")
    require_file("--json", tmp_path / "new.json")
    assert list(tmp_path.iterdir()) == []
    kept = tmp_path / "kept.json"
    kept.write_text("text")
    require_file("--json", kept)
    assert kept.read_text() == "text"
    with pytest.raises(ValueError, match=r"must be a file that can be written: Is a directory"):
        require_file("--json", tmp_path)
    with pytest.raises(ValueError, match=r"must be a file that can be written: No such file"):
        require_file("--json", tmp_path / "no" / "where.json")
