"""``cumae merge``: one verdict for runs of several machines."""

import json
from pathlib import Path
from typing import Any

import pytest

from cumae.properties.tests.helpers.command_line import cumae
from cumae.properties.tests.helpers.python_process import Done

RIGHT: dict[str, object] = {"kernel": "m:f", "operation": "position_ids", "dialect": "cumae"}
RIGHT |= {"status": "agrees", "cases": 10, "comparisons": 30, "seconds": 1.5, "failure": None}
FAILURE = {"check": "agrees", "message": "`p[0]` differs", "file": "kept/one.json"}
WRONG = RIGHT | {"status": "disagrees", "failure": FAILURE}
RUN = {"seed": 0, "shard": "1/1", "verdicts": [RIGHT]}
NOTHING = RIGHT | {"status": "nothing compared", "comparisons": 0}


def merged(folder: Path, *runs: tuple[str, list[dict[str, Any]]], options: tuple[str, ...] = ()) -> Done:
    """Merge runs, each given as its shard and its verdicts."""
    names = []
    for number, (shard, verdicts) in enumerate(runs):
        names.append(f"{number}.json")
        (folder / names[-1]).write_text(json.dumps({"seed": 0, "shard": shard, "verdicts": verdicts}))
    return cumae("merge", *names, *options, cwd=folder)


def test_runs_that_agree_are_summed(tmp_path: Path) -> None:
    done = merged(tmp_path, ("1/2", [RIGHT]), ("2/2", [RIGHT]), options=("--json", "all.json"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("all agree: 20 cases, 60 comparisons in 2 runs\n")
    written = json.loads((tmp_path / "all.json").read_text())
    (verdict,) = written["verdicts"]
    assert (verdict["cases"], verdict["seconds"], verdict["status"]) == (20, 3.0, "agrees")
    assert (written["runs"], written["missing"]) == (["0.json", "1.json"], [])


def test_one_disagreement_is_the_verdict_and_names_its_run(tmp_path: Path) -> None:
    done = merged(tmp_path, ("1/2", [RIGHT]), ("2/2", [WRONG, RIGHT | {"kernel": "m:g"}]))
    assert done.returncode == 1
    assert "m:f: agrees: `p[0]` differs\n  found by 1.json, saved: kept/one.json\n" in done.stdout
    assert done.stdout.endswith("1 of 2 kernels disagree: 30 cases, 90 comparisons in 2 runs\n")


def test_a_function_must_be_compared_by_one_run_at_least(tmp_path: Path) -> None:
    assert merged(tmp_path, ("1/2", [NOTHING]), ("2/2", [RIGHT])).returncode == 0
    assert merged(tmp_path, ("1/2", [NOTHING]), ("2/2", [NOTHING])).returncode == 1
    empty = merged(tmp_path, ("1/1", []))
    assert empty.returncode == 1 and empty.stdout.endswith(
        "nothing compared: 0 cases, 0 comparisons in 1 run\n"
    )


def test_domains_of_one_function_are_told_apart(tmp_path: Path) -> None:
    done = merged(tmp_path, ("1/1", [RIGHT, WRONG | {"domain": "max_requests=1"}]))
    assert done.returncode == 1 and "1 of 2 kernels disagree" in done.stdout


def test_a_missing_shard_is_no_verdict_unless_one_disagrees(tmp_path: Path) -> None:
    part = merged(tmp_path, ("1/3", [RIGHT]), ("3/3", [RIGHT]))
    assert part.returncode == 2 and "no verdict: 20 cases" in part.stdout and "all agree" not in part.stdout
    assert (
        part.stderr
        == "cumae: shards = 2/3 of seed 0, must have a whole run each: this is a part of the run\n"
    )
    wrong = merged(tmp_path, ("1/3", [RIGHT]), ("3/3", [WRONG]))
    assert wrong.returncode == 1 and "2/3 of seed 0" in wrong.stderr


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        ([], "bad.json: file, must hold what `cumae fuzz --json` writes"),
        (RUN | {"seed": "0"}, "bad.json: seed = '0', must be an integer"),
        (RUN | {"shard": "3/2"}, "bad.json: shard = '3/2', must be i/n with 1 <= i <= n"),
        (RUN | {"verdicts": [{}]}, "bad.json: verdicts[0].kernel = None, must be a string"),
        (RUN | {"verdicts": [RIGHT | {"status": "fine"}]}, "bad.json: verdicts[0].status = 'fine', must"),
        (RUN | {"verdicts": [RIGHT | {"cases": "9"}]}, "bad.json: verdicts[0].cases = '9', must be a number"),
        (RUN | {"verdicts": [RIGHT | {"failure": {}}]}, "bad.json: verdicts[0].failure = {}, must be an obj"),
    ],
)
def test_a_file_of_another_kind_is_refused(content: object, rule: str, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text(json.dumps(content))
    refused = cumae("merge", "bad.json", cwd=tmp_path)
    assert refused.returncode == 2
    assert refused.stderr.startswith(f"cumae: {rule}")
    assert refused.stderr.count("\n") == 1


def test_an_interrupted_run_is_no_whole_one(tmp_path: Path) -> None:
    content = {"seed": 0, "shard": "1/1", "verdicts": [RIGHT], "interrupted": True}
    (tmp_path / "cut.json").write_text(json.dumps(content))
    done = cumae("merge", "cut.json", cwd=tmp_path)
    assert done.returncode == 2 and "shards = 1/1 of seed 0" in done.stderr


def test_the_same_cases_do_not_count_twice(tmp_path: Path) -> None:
    again = merged(tmp_path, ("1/2", [RIGHT]), ("1/2", [RIGHT]))
    assert again.returncode == 2 and "1.json: shard = '1/2', must differ from that of 0.json" in again.stderr
    twice = cumae("merge", "0.json", "0.json", cwd=tmp_path)
    assert twice.returncode == 2 and "FILE = '0.json', must be given once" in twice.stderr


FILLS = """
import torch
def fill(token_to_request, cu_seqlens_q, context_lens, position_ids):
    with open("seen", "a") as seen:
        print(context_lens.tolist(), cu_seqlens_q.tolist(), file=seen)
    position_ids.zero_()
    for row, request in enumerate(token_to_request.tolist()):
        if request >= 0:
            position_ids[row] = context_lens[request] + row - cu_seqlens_q[request]
"""


def test_shards_of_fuzz_draw_different_cases_and_merge(tmp_path: Path) -> None:
    (tmp_path / "fills.py").write_text(FILLS)
    seen = []
    for index in (1, 2):
        given = (
            "fills.py:fill",
            "--op",
            "position_ids",
            "--check",
            "agrees",
            "--cases",
            "12",
            "--no-isolate",
        )
        run = cumae("fuzz", *given, "--shard", f"{index}/2", "--json", f"{index}.json", cwd=tmp_path)
        assert run.returncode == 0, run.stdout
        seen.append(set((tmp_path / "seen").read_text().splitlines()))
        (tmp_path / "seen").unlink()
    assert len(seen[0] - seen[1]) > 4 and len(seen[1] - seen[0]) > 4
    done = cumae("merge", "1.json", "2.json", cwd=tmp_path)
    assert done.returncode == 0 and "in 2 runs" in done.stdout, done.stderr
