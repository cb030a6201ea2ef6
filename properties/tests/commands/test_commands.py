"""The command line: same verdicts as pytest, exit status 0, 1 or 2, one line for bad input."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cumae.properties.commands import main
from cumae.properties.tests.helpers.command_line import AS_BROKEN, BROKEN, cumae, cumae_process


def test_a_failure_is_found_saved_replayed_and_fixed(tmp_path: Path) -> None:
    found = cumae_process("fuzz", BROKEN, *AS_BROKEN, "--cases", "100", cwd=tmp_path)
    assert found.returncode == 1, found.stderr
    assert "1 of 1 kernel disagrees" in found.stdout
    (file,) = (tmp_path / ".cumae" / "failures").glob("*.json")
    again = cumae("replay", str(file), cwd=tmp_path)
    assert again.returncode == 1
    assert again.stdout.startswith("FAILED ")
    assert "`ke[0]` differs from the oracle" in again.stdout
    right = ("--target", "cumae.gpu_impl:write_causal_windows", "--dialect", "cumae")
    good = cumae("replay", str(file), *right, cwd=tmp_path)
    assert good.returncode == 0
    assert good.stdout.startswith("FIXED ")


def test_fuzzing_prints_shapes_and_a_verdict(tmp_path: Path) -> None:
    run = cumae("fuzz", "--op", "position_ids", "--cases", "60", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert next(line for line in lines if "all agree" in line) == lines[2]  # behind the bar of progress
    assert "shapes of batches: " in run.stdout and "logits tied" not in run.stdout
    said = re.search(r"all agree: (\d+) cases", run.stdout)
    assert said is not None
    assert int(said[1]) > 81  # 21 fixtures, 60 drawn, and steps of an engine


@pytest.mark.parametrize("command", ["list", "fuzz", "replay", "reduce", "draw", "doctor"])
def test_a_command_that_runs_nothing_itself_does_not_wait_for_torch(command: str) -> None:
    code = f"import sys, cumae.properties.commands.{command}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


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


def test_the_list_shows_one_operation_with_the_values_of_its_options(tmp_path: Path) -> None:
    listed = cumae("list", "topk_to_slots", cwd=tmp_path).stdout
    assert "option prefill_workspace: the keys of prefills that compute something are gathered" in listed
    assert "read selected positions; in engines: False, True\n" in listed
    assert "in sglang: " in listed
    assert "position_ids:" not in listed
    assert "    in cumae: these, or windows\n" in cumae("list", "causal_windows", cwd=tmp_path).stdout
    assert "padding='written', or 'untouched', 'any', 'none'" in cumae("list", cwd=tmp_path).stdout


def test_the_list_tells_what_each_option_means(tmp_path: Path) -> None:
    listed = json.loads(cumae("list", "--json", cwd=tmp_path).stdout)
    assert sorted(listed["meanings"]) == listed["options"]
    assert all(3 < len(meaning.split()) < 40 for meaning in listed["meanings"].values())


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ["list", "--axes", "page_read"],
            "cumae: --axes = True, must not stand with an operation, 'page_read'",
        ),
        (["list", "rotary"], "cumae: operation = 'rotary', must be one of 'sequence_layout', "),
        (["fuzz", "--time", "soon"], "cumae: --time = 'soon', must be a time above 0 such as 60s, 5m or 1h"),
        (["fuzz", "--shard", "3/2"], "cumae: --shard = '3/2', must be i/n with 1 <= i <= n"),
        (["fuzz", "--op", "rotary"], "cumae: --op = 'rotary', must be one of 'sequence_layout', "),
        (["fuzz", "--limit", "0"], "cumae: --limit = 0.0, must be a number of seconds > 0"),
        (["fuzz", "--limit", "long"], "cumae: --limit = 'long', must be a number of seconds > 0"),
        (["fuzz", "--cases", "0"], "cumae: --cases = 0, must be >= 1"),
        *(
            (
                [command, "--cases", "5", "--time", "9s"],
                "cumae: --time = '9s', must be left out with --cases = 5",
            )
            for command in ("fuzz", "engines")
        ),
        (["fuzz", "--cases", "two"], "cumae: --cases = 'two', must be an integer >= 1"),
        (["fuzz", "--device", "tpu"], "cumae: --device = 'tpu', must be one of 'auto', 'cpu', 'cuda'"),
        (["fuzz", "--cases"], "cumae: Option '--cases' requires an argument."),
        (
            ["fuzz", "--case", "1"],
            "cumae: option = '--case' (did you mean '--cases'?), must be one of `cumae fuzz --help`",
        ),
        *(
            (["fuzz", option, "9"], f"cumae: option = '{option}' (did you mean '--time'?), must be one of ")
            for option in ("--seconds", "--budget", "--for")
        ),
        (["draw", "--seed", "x"], "cumae: --seed = 'x', must be an integer >= 0"),
        (["replay"], "cumae: FILES = None, must be given: `cumae replay --help`"),
        (["fuzz", BROKEN], "cumae: --op = None, must name the operation that TARGET computes"),
        (["fuzz", "nowhere:f", "--op", "position_ids"], "cumae: target = 'nowhere:f', must be importable"),
        (["replay", "missing.json"], "ERROR  missing.json: file, must be readable"),
    ],
)
def test_bad_input_is_one_line_and_status_2(arguments: list[str], line: str, tmp_path: Path) -> None:
    refused = cumae(*arguments, cwd=tmp_path)
    assert refused.returncode == 2
    assert refused.stderr.startswith(line)
    assert (refused.stdout, refused.stderr.count("\n")) == ("", 1)
    assert list(tmp_path.iterdir()) == []


def test_an_error_of_cumae_itself_is_not_told_as_bad_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(main, "cli", lambda standalone_mode: range(0, 1, int(standalone_mode)))
    ended = cumae(cwd=tmp_path)
    assert ended.returncode == 3
    assert "ValueError: range() arg 3 must not be zero\ncumae: the error above is" in ended.stderr


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "cut.json"
    file.write_text('{"version": 1, "operation": "posit')
    refused = cumae_process("replay", str(file), cwd=tmp_path)
    assert refused.returncode == 2
    assert "cut.json: content, must be JSON" in refused.stderr


def test_a_saved_case_is_reduced(tmp_path: Path) -> None:
    found = cumae("fuzz", BROKEN, *AS_BROKEN, "--cases", "5", cwd=tmp_path)
    assert found.returncode == 1
    (file,) = (tmp_path / ".cumae" / "failures").glob("*.json")
    content = json.loads(file.read_text())
    requests = [
        {"context_len": 3, "query_len": 2 + b, "block_ids": list(range(4 * b, 4 * b + 4)), "phase": "prefill"}
        for b in range(3)
    ]
    content["case"]["batch"] = {"requests": requests, "block_size": 4}
    big = tmp_path / "big.json"
    big.write_text(json.dumps(content))
    reduced = cumae("reduce", str(big), cwd=tmp_path)
    assert reduced.returncode == 1, reduced.stderr
    assert "cases tried in" in reduced.stdout
    smaller = json.loads((tmp_path / "big.reduced.json").read_text())["case"]["batch"]["requests"]
    assert [(r["context_len"], r["query_len"]) for r in smaller] == [(1, 1)]
    good = ("cumae.gpu_impl:write_causal_windows", "--dialect", "cumae")
    fixed = cumae("reduce", str(big), *good, cwd=tmp_path)
    assert (fixed.returncode, fixed.stdout.split()[0]) == (0, "FIXED")


def test_the_doctor_says_what_runs(tmp_path: Path) -> None:
    told = cumae("doctor", cwd=tmp_path)
    assert told.returncode == 0, told.stdout
    for word in (
        "Python ",
        "torch ",
        "interpreter ",
        "memory hooks ",
        "GPU ",
        "compiler ",
        "kernels run on ",
    ):
        assert word in told.stdout


def test_the_list_is_there_for_programs(tmp_path: Path) -> None:
    listed = json.loads(cumae("list", "--json", cwd=tmp_path).stdout)
    assert "slot_mapping" in [operation["name"] for operation in listed["operations"]]
    assert listed["dialects"][0]["name"] == "cumae"


def test_a_plain_case_is_replayed_on_a_target(tmp_path: Path) -> None:
    file = tmp_path / "case.json"
    requests = [{"context_len": 1, "query_len": 1, "block_ids": [0], "phase": "prefill"}]
    file.write_text(json.dumps({"version": 1, "batch": {"requests": requests, "block_size": 2}}))
    options = (*AS_BROKEN, "--target", BROKEN, "--no-isolate")
    assert cumae("replay", str(file), *options, cwd=tmp_path).returncode == 1


def test_an_interrupted_fuzz_prints_what_it_had_found(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "import time\n"
        "def kernel(context_lens, position_ids):\n"
        "    position_ids.fill_(-7)\n"
        "    time.sleep(0.3)\n"
    )
    options = ["fuzz", "slow:kernel", "--op", "position_ids", "--time", "1h"]
    # A shell's background jobs ignore the signal, and so would this one.
    start = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    start += "from cumae.properties.commands.main import main; main()"
    command = [sys.executable, "-c", start, *options]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob(".cumae/failures/*.json")) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    told, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "slow:kernel disagrees with position_ids" in told
    assert "saved: .cumae/failures/position_ids-cumae-slow-kernel-agrees.json" in told
    assert re.search(r"^interrupted: 1 of 1 kernel tried disagrees; \d+ cases? agreed$", told, re.MULTILINE)


def test_an_interrupted_fuzz_says_how_many_cases_agreed(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "import time\n"
        "from cumae.gpu_impl import write_position_ids\n"
        "def kernel(token_to_request, cu_seqlens_q, context_lens, position_ids):\n"
        "    open('called', 'a').close()\n"
        "    time.sleep(0.2)\n"
        "    write_position_ids(token_to_request, cu_seqlens_q, context_lens, position_ids)\n"
    )
    options = ["fuzz", "slow:kernel", "--op", "position_ids", "--time", "1h", "--json", "run.json"]
    start = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    start += "from cumae.properties.commands.main import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", start, *options], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "called").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(4.0)
    process.send_signal(signal.SIGINT)
    told, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    said = re.search(r"^interrupted: 0 of 1 kernel tried disagrees; (\d+) cases? agreed$", told, re.MULTILINE)
    assert said is not None and int(said[1]) > 0
    run = json.loads((tmp_path / "run.json").read_text())
    assert (run["interrupted"], run["verdicts"][0]["cases"]) == (True, int(said[1]))


FORGETFUL = """
import torch

_seen = []


def positions(context_lens, query_lens, position_ids):
    _seen.append(len(query_lens))
    pairs = zip(context_lens.tolist(), query_lens.tolist())
    rows = [context + i for context, query in pairs for i in range(query)]
    position_ids.zero_()
    position_ids[: len(rows)] = torch.tensor(rows, dtype=position_ids.dtype) + (len(_seen) > 40)
"""


def test_a_failure_that_needs_other_calls_before_it_is_not_told_as_fixed_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(FORGETFUL)
    unconfirmed = ("--cases", "60", "--no-isolate", "--check", "agrees")
    copies = ("--promise", "all_but=('never_synchronises',)")  # to the host
    found = cumae("fuzz", "mine.py:positions", "--op", "position_ids", *unconfirmed, *copies, cwd=tmp_path)
    assert found.returncode == 1, found.stdout
    (file,) = (tmp_path / ".cumae" / "failures").glob("*.json")
    alone = cumae("replay", str(file), cwd=tmp_path)
    assert "its file has not changed since" in alone.stdout, alone.stdout
    (tmp_path / "mine.py").write_text(FORGETFUL.replace("+ (len(_seen) > 40)", ""))
    mended = cumae("replay", str(file), cwd=tmp_path)
    assert mended.stdout.startswith("FIXED ")
    assert "has not changed" not in mended.stdout
