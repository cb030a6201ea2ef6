"""A dump of an engine's tensors is judged as it is, or run on a function."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cumae.properties.comparing.judge_dump import judge_dump
from cumae.properties.dialects.dump import read_dump
from cumae.properties.tests.command_line import cumae

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
        "sequence_layout": 3,
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
        ({"colour": [1]}, "tensor = 'colour', must be one that vllm has"),
        ({"query_start_loc": [1, 2]}, "query_start_loc[0] = 1, must be 0"),
        ({"positions": [0.5]}, "positions[0] = 0.5, must be an integer"),
    ],
)
def test_tensors_that_are_no_step_are_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError) as error:
        judge_dump(written(tmp_path, ".json", STEP | change), "vllm")
    assert message in str(error.value)


def test_a_dump_without_an_output_is_nothing_to_judge(tmp_path: Path) -> None:
    inputs = {name: value for name, value in STEP.items() if name not in ("positions", "slot_mapping")}
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
