"""A dump of an engine's tensors is judged as it is, or run on a function."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cumae.properties.comparing.judge_dump import judge_dump
from cumae.properties.dialects.dump import Contradiction
from cumae.properties.dialects.dump_file import read_dump
from cumae.properties.tests.helpers.command_line import cumae

STEP: dict[str, Any] = {
    "query_start_loc": [0, 2, 3],
    "seq_lens": [5, 7],
    "block_table": [[3, 4], [9, 2]],
    "block_size": 4,
    "decode_threshold": 1,
    "num_tokens_padded": 4,
    "positions": [3, 4, 6, 0],
    "slot_mapping": [15, 16, 10, -1, -1],
}
STALE = {**STEP, "slot_mapping": [15, 16, 10, 11, -1]}


def written(folder: Path, suffix: str, content: dict[str, Any]) -> Path:
    file = folder / f"step{suffix}"
    if suffix == ".json":
        file.write_text(json.dumps(content))
    elif suffix == ".npz":
        np.savez(file, **content)
    else:
        torch.save({name: torch.tensor(value) for name, value in content.items()}, file)
    return file


@pytest.mark.parametrize("suffix", [".json", ".npz", ".pt"])
def test_a_dump_says_which_token_is_wrong(suffix: str, tmp_path: Path) -> None:
    right = judge_dump(written(tmp_path, suffix, STEP), "vllm")
    assert {v.operation: v.comparisons for v in right if v.ok} == {
        "position_ids": 4,
        "slot_mapping": 5,
    }
    (wrong,) = judge_dump(written(tmp_path, suffix, STALE), "vllm", "slot_mapping")
    assert wrong.failure is not None
    finding = wrong.failure.finding
    assert (finding.message, finding.expected, finding.actual) == (
        "`slot_mapping[3]` differs from the oracle",
        "-1",
        "11",
    )


def test_what_a_dump_says_too_little_of_is_named(tmp_path: Path) -> None:
    file = written(tmp_path, ".json", STEP | {"out": [[5, 6]]})
    done = cumae("replay", str(file), "--dialect", "vllm", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == "not judged: out, because a dump does not determine it"


def test_the_command_line_judges_a_dump(tmp_path: Path) -> None:
    file = written(tmp_path, ".json", STALE)
    done = cumae("replay", str(file), "--dialect", "vllm", cwd=tmp_path)
    assert done.returncode == 1
    assert f"AGREES {file}: position_ids, 4 elements compared" in done.stdout
    assert "`slot_mapping[3]` differs from the oracle" in done.stdout


def test_of_several_dumps_an_error_names_its_own(tmp_path: Path) -> None:
    whole = written(tmp_path, ".json", STEP)
    short = written(tmp_path, ".npz", {name: value for name, value in STEP.items() if name != "block_size"})
    done = cumae("replay", str(short), str(whole), "--dialect", "vllm", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(f"ERROR  {short}: ") and "must be given" in done.stderr
    assert f"AGREES {whole}: position_ids" in done.stdout
    alone = cumae("replay", str(short), "--dialect", "vllm", cwd=tmp_path)
    assert alone.stderr.startswith("ERROR  block_size = None, must be given")


def test_a_function_is_run_on_the_inputs_of_a_dump(tmp_path: Path) -> None:
    file = written(tmp_path, ".json", STALE)
    code = "def zero(query_start_loc, num_computed_tokens, positions):\n    positions.zero_()\n"
    (tmp_path / "kernels.py").write_text(code)
    run = ("--dialect", "vllm", "--op", "position_ids", "--target", "kernels:zero", "--no-isolate")
    done = cumae("replay", str(file), *run, cwd=tmp_path)
    assert done.returncode == 1
    assert "`positions[0]` differs from the oracle" in done.stdout


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"block_table": [3, 4]}, "block_table[0] = 3, must be a list of integers"),
        ({"positions": [0.5]}, "positions[0] = 0.5, must be an integer"),
        ({"block_size": 0}, "block_size = 0, must be >= 1"),
        ({"seq_lens": [1]}, "seq_lens: number = 1, must be 2"),
    ],
)
def test_tensors_that_cannot_be_read_are_refused(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError) as error:
        judge_dump(written(tmp_path, ".json", STEP | change), "vllm")
    assert message in str(error.value)
    assert not isinstance(error.value, Contradiction)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"query_start_loc": [1, 2, 3]}, "query_start_loc[0] = 1, must be 0"),
        ({"query_start_loc": [0, 4, 3]}, "query_start_loc[2] = 3, must be >= 4"),
        ({"num_computed_tokens": [3, 5]}, "seq_lens[1] = 7, must be 5 + 1 = num_computed_tokens"),
        ({"query_start_loc_cpu": [0, 1, 3]}, "query_start_loc_cpu[1] = 1, must be 2, as query_start_loc[1]"),
        ({"seq_lens": [5, 9]}, "block_table[1]: number of columns = 2, must be >= 3"),
        ({"block_table": [[3, 4], [9, 4]]}, "4"),
        ({"num_tokens_padded": 2}, "num_tokens_padded = 2, must be >= 3"),
    ],
)
def test_inputs_that_contradict_each_other_are_a_finding(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    file = written(tmp_path, ".json", STEP | change)
    with pytest.raises(Contradiction) as error:
        judge_dump(file, "vllm")
    assert message in str(error.value)
    done = cumae("replay", str(file), "--dialect", "vllm", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith(f"FAILED {file}: the inputs contradict each other\n    {error.value}\n")


def test_foreign_names_are_ignored_and_named_in_one_line(tmp_path: Path) -> None:
    file = written(tmp_path, ".json", STEP | {"colour": [1], "hidden_states": [[0.5]]})
    done = cumae("replay", str(file), "--dialect", "vllm", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == "ignored, not names of vllm: colour, hidden_states"


def test_everything_that_is_missing_is_named_at_once(tmp_path: Path) -> None:
    left = {name: STEP[name] for name in ("query_start_loc", "positions")}
    file = written(tmp_path, ".json", left | {"block_table_tensor": [[1]]})
    done = cumae("replay", str(file), "--dialect", "vllm", cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    for name in (
        "block_table; ",
        "block_size; ",
        "num_computed_tokens or seq_lens; ",
        "decode_threshold = None",
    ):
        assert name in done.stderr
    assert "not names of vllm: block_table_tensor" in done.stderr


def test_elements_behind_the_live_ones_are_judged_only_if_the_dump_says_how_many_there_are(
    tmp_path: Path,
) -> None:
    buffer = {**STEP, "positions": [3, 4, 6, 77, 88]}
    del buffer["num_tokens_padded"], buffer["slot_mapping"]
    done = cumae("replay", str(written(tmp_path, ".json", buffer)), "--dialect", "vllm", cwd=tmp_path)
    assert done.returncode == 0
    assert "positions: 2 elements at the end not judged; num_tokens_padded is missing" in done.stdout
    known = cumae(
        "replay",
        str(written(tmp_path, ".json", buffer | {"num_tokens_padded": 5})),
        "--dialect",
        "vllm",
        cwd=tmp_path,
    )
    assert known.returncode == 1
    assert "`positions[3]` differs from the oracle" in known.stdout


def test_what_is_wrong_in_a_dump_is_saved_as_a_case_that_replays_without_the_dump(tmp_path: Path) -> None:
    file = written(tmp_path, ".json", STALE)
    done = cumae("replay", file.name, "--dialect", "vllm", cwd=tmp_path)
    file.unlink()
    (saved,) = (tmp_path / ".cumae/failures").glob("*.json")
    assert f"reproduce: cumae replay {saved.relative_to(tmp_path)}\n" in done.stdout
    (text,) = re.findall(r"without a file: cumae replay '(\S+)'\n", done.stdout)
    assert "versions: cumae " in done.stdout
    for source in (str(saved), text):
        again = cumae("replay", source, cwd=tmp_path)
        assert again.returncode == 1
        assert "`slot_mapping[3]` differs from the oracle" in again.stdout
        drawn = cumae("draw", source, cwd=tmp_path)
        assert drawn.returncode == 0
        assert "step.json failed slot_mapping: agrees" in drawn.stdout
    code = "def slots(slot_mapping, query_start_loc):\n    slot_mapping.fill_(7)\n"
    (tmp_path / "kernels.py").write_text(code)
    run = ("--target", "kernels:slots", "--no-isolate")
    other = cumae("replay", text, *run, cwd=tmp_path)
    assert other.returncode == 1
    assert "kernels:slots disagrees with slot_mapping" in other.stdout
    refused = cumae("reduce", text, cwd=tmp_path)
    assert refused.returncode == 2
    assert "target = None, must be given" in refused.stderr


def test_a_dump_is_drawn_with_the_first_wrong_element(tmp_path: Path) -> None:
    right = cumae("draw", str(written(tmp_path, ".json", STEP)), "--dialect", "vllm", cwd=tmp_path)
    assert right.returncode == 0
    assert "request 1  decode   6 + 1" in right.stdout and right.stdout.count("✗") == 0
    wrong = cumae("draw", str(written(tmp_path, ".json", STALE)), "--dialect", "vllm", cwd=tmp_path)
    assert "`slot_mapping[3]` differs from the oracle" in wrong.stdout and wrong.stdout.count("✗") == 2
    inputs = {name: value for name, value in STEP.items() if name not in ("positions", "slot_mapping")}
    bare = cumae("draw", str(written(tmp_path, ".json", inputs)), "--dialect", "vllm", cwd=tmp_path)
    assert bare.returncode == 0


def test_a_dump_is_reduced_on_a_function(tmp_path: Path) -> None:
    file = written(tmp_path, ".pt", STALE)
    code = "def one(query_start_loc, num_computed_tokens, positions):\n    positions.fill_(1)\n"
    (tmp_path / "kernels.py").write_text(code)
    run = ("kernels:one", "--op", "position_ids", "--dialect", "vllm")
    done = cumae("reduce", str(file), *run, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    smaller = json.loads((tmp_path / "step.reduced.json").read_text())["case"]["batch"]["requests"]
    assert len(smaller) <= 1
    for missing, rule in ((run[1:], "names no function"), (("kernels:one", *run[3:]), "names no operation")):
        refused = cumae("reduce", str(file), *missing, cwd=tmp_path)
        assert refused.returncode == 2
        assert rule in refused.stderr


def test_a_dump_without_an_output_is_nothing_to_judge(tmp_path: Path) -> None:
    inputs = {name: value for name, value in STEP.items() if name not in ("positions", "slot_mapping")}
    with pytest.raises(ValueError, match="must hold an output of an operation that a dump determines"):
        judge_dump(written(tmp_path, ".json", inputs), "vllm")
    del inputs["query_start_loc"]
    with pytest.raises(ValueError, match="query_start_loc = None, must be given"):
        judge_dump(written(tmp_path, ".json", inputs), "vllm")
    with pytest.raises(ValueError, match=r"an output of causal_windows that a dump determines \(cu_seqlen_"):
        judge_dump(written(tmp_path, ".json", STEP), "vllm", "causal_windows")
    with pytest.raises(ValueError, match="must hold an output of topk_to_slots that a dump"):
        judge_dump(written(tmp_path, ".json", STEP | {"out": [5, 6]}), "vllm", "topk_to_slots")


@pytest.mark.parametrize(
    ("name", "text"), [("a.txt", "{}"), ("a.json", "[1]"), ("a.pt", "no"), ("a.npz", "no")]
)
def test_a_file_that_holds_no_tensors_is_refused(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=name):
        read_dump(tmp_path / name)


def test_a_dump_needs_a_dialect(tmp_path: Path) -> None:
    done = cumae("replay", str(written(tmp_path, ".json", STEP)), cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "--dialect = None, must be given" in done.stderr
    assert "most of them vllm's: --dialect vllm?" in done.stderr
