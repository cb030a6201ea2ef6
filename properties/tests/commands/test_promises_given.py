"""Promises on the command line stand in place of the function's own, and a saved failure keeps them."""

import json
import re
import shutil
from pathlib import Path

import pytest

from cumae.properties.tests.helpers.command_line import cumae

TEST = """
from cumae import Domain, conforms_to

def positions(context_lens, query_lens, num_requests, position_ids, more):
    {padding}
    token = 0
    for context, count in zip(context_lens[:num_requests].tolist(), query_lens[:num_requests].tolist()):
        for position in range(context, context + count):
            position_ids[token] = position + more * (count > 2)
            token += 1

@conforms_to("position_ids", domain=Domain(captured=False, padding={promised!r}))
def test_positions(context_lens, query_lens, num_requests, position_ids):
    positions(context_lens, query_lens, num_requests, position_ids, more={more})
"""
FUZZ = ("fuzz", "mine.py:test_positions", "--cases", "20")
UNTOUCHED = ("--promise", "padding='untouched'")


def write(folder: Path, *, more: int, promised: str = "written", padding: str = "pass") -> None:
    """Write the file; of one written in the same second, Python would take the bytecode for this one's."""
    shutil.rmtree(folder / "__pycache__", ignore_errors=True)
    (folder / "mine.py").write_text(TEST.format(more=more, promised=promised, padding=padding))


def test_a_promise_stands_in_place_of_the_functions_own(tmp_path: Path) -> None:
    write(tmp_path, more=0)
    without = cumae(*FUZZ, cwd=tmp_path)
    assert without.returncode == 1, without.stdout + without.stderr
    run = cumae(*FUZZ, *UNTOUCHED, "--failures", "others", cwd=tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr


def test_a_failure_keeps_the_promises_it_was_found_under(tmp_path: Path) -> None:
    """Under the test's own promise, the padding of the saved case would be wrong, whatever else is right."""
    write(tmp_path, more=1)
    found = cumae(*FUZZ, *UNTOUCHED, "--promise", "min_requests=2", cwd=tmp_path)
    assert found.returncode == 1, found.stdout + found.stderr
    assert "`position_ids[" in found.stdout and "min_requests" not in found.stdout
    text = re.search(r"cumae replay '(cumae1:[^']+)'", found.stdout)
    (file,) = (tmp_path / ".cumae" / "failures").glob("*.json")
    content = json.loads(file.read_text())
    assert content["promised"] == ["padding='untouched'", "min_requests=2"] and text is not None
    content["case"]["layout"]["num_padding_tokens"] = 3
    file.write_text(json.dumps(content))
    reduced = cumae("reduce", str(file), cwd=tmp_path)
    assert reduced.returncode == 1, reduced.stdout + reduced.stderr
    (smaller,) = (tmp_path / ".cumae" / "failures").glob("*.reduced.json")
    content = json.loads(smaller.read_text())
    assert content["promised"] == ["padding='untouched'", "min_requests=2"]
    assert len(content["case"]["batch"]["requests"]) == 2
    write(tmp_path, more=0)
    for saved in (str(file), text[1], str(smaller)):
        again = cumae("replay", saved, cwd=tmp_path)
        assert again.returncode == 0, again.stdout + again.stderr


def test_a_reduced_case_is_told_with_inputs_and_promises(tmp_path: Path) -> None:
    padded = "if int(query_lens.sum()) < position_ids.numel(): raise IndexError"
    write(tmp_path, more=0, padding=padded)
    assert cumae(*FUZZ, "--no-isolate", cwd=tmp_path).returncode == 1
    (file,) = (tmp_path / ".cumae" / "failures").glob("*.json")
    content = json.loads(file.read_text())
    content["case"]["layout"]["num_padding_tokens"] = 7
    file.write_text(json.dumps(content))
    reduced = cumae("reduce", str(file), cwd=tmp_path)
    assert reduced.returncode == 1, reduced.stdout + reduced.stderr
    told = r"  called with: .*\n(?:.*\n)?  layout: num_padding_tokens=1\n  if no engine makes such a call: .*"
    line = re.search(told, reduced.stdout)
    assert line is not None and "Domain(padding='none')" in line[0], reduced.stdout


@pytest.mark.parametrize(
    ("promise", "told"),
    [
        ("padding=none", "--promise = 'padding=none', must be NAME=VALUE with a Python literal"),
        ("padding", "--promise = 'padding', must be NAME=VALUE with a Python literal"),
        ("padded='none'", "padded = 'none' (did you mean 'padding'?), must be a promise: "),
        ("padding='some'", "padding = 'some', must be "),
        ("topk=5", "topk = 5, must be a non-empty tuple"),
        ("max_requests=-1", "max_requests = -1, must be "),
    ],
)
def test_a_wrong_promise_is_one_line_and_status_2(promise: str, told: str, tmp_path: Path) -> None:
    write(tmp_path, more=0)
    run = cumae(*FUZZ, "--promise", promise, cwd=tmp_path)
    assert run.returncode == 2
    assert run.stderr.splitlines()[-1].startswith(f"cumae: {told}"), run.stderr
    assert len(run.stderr.splitlines()) == 1


def test_a_promise_is_given_once(tmp_path: Path) -> None:
    write(tmp_path, more=0)
    run = cumae(*FUZZ, *UNTOUCHED, *UNTOUCHED, cwd=tmp_path)
    assert run.returncode == 2
    assert run.stderr == "cumae: --promise = \"padding='untouched'\", must be given once for padding\n"
