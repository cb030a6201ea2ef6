"""The command line: same verdicts as pytest, exit status 0, 1 or 2, one line for bad input."""

import subprocess
import sys
from pathlib import Path

import pytest


def cumae(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cumae.properties.commands", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300, check=False)


BROKEN = "cumae.fixtures.bugs.windows:key_offsets_as_rows"


def test_a_failure_is_found_saved_replayed_and_fixed(tmp_path: Path) -> None:
    found = cumae("fuzz", BROKEN, "--op", "causal_windows", "--cases", "100", cwd=tmp_path)
    assert found.returncode == 1, found.stderr
    assert "1 of 1 kernels disagree" in found.stdout
    (file,) = (tmp_path / ".cumae" / "failures").glob("*.json")
    again = cumae("replay", str(file), cwd=tmp_path)
    assert again.returncode == 1
    assert again.stdout.startswith("FAILED ")
    assert "`ke[0]` differs from the oracle" in again.stdout
    good = cumae("replay", str(file), "--target", "cumae.gpu_impl:write_causal_windows", cwd=tmp_path)
    assert good.returncode == 0
    assert good.stdout.startswith("FIXED ")


def test_fuzzing_prints_shapes_and_a_verdict(tmp_path: Path) -> None:
    run = cumae("fuzz", "--op", "position_ids", "--cases", "60", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "decode of one token" in run.stdout
    assert "all agree: 81 cases" in run.stdout


def test_the_list_names_operations_outputs_and_inputs(tmp_path: Path) -> None:
    listed = cumae("list", cwd=tmp_path)
    assert listed.returncode == 0
    for word in (
        "prefix_interleave",
        "token_to_request",
        "cumae.gpu_impl:write_slot_mapping",
        "dialect cumae",
    ):
        assert word in listed.stdout


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["fuzz", "--time", "soon"], "cumae: --time = 'soon', must be a time such as 60s, 5m or 1h"),
        (["fuzz", "--shard", "3/2"], "cumae: --shard = '3/2', must be i/n with 1 <= i <= n"),
        (["fuzz", "--op", "rotary"], "cumae: --op = 'rotary', must be one of sequence_layout, "),
        (["fuzz", BROKEN], "cumae: --op = None, must name the operation that TARGET computes"),
        (["fuzz", "nowhere:f", "--op", "position_ids"], "cumae: target = 'nowhere:f', must be importable"),
        (["replay", "missing.json"], "ERROR  missing.json: file, must be readable"),
    ],
)
def test_bad_input_is_one_line_and_status_2(arguments: list[str], line: str, tmp_path: Path) -> None:
    refused = cumae(*arguments, cwd=tmp_path)
    assert refused.returncode == 2
    assert refused.stderr.startswith(line)
    assert refused.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "cut.json"
    file.write_text('{"version": 1, "operation": "posit')
    refused = cumae("replay", str(file), cwd=tmp_path)
    assert refused.returncode == 2
    assert "cut.json: content, must be JSON" in refused.stderr
