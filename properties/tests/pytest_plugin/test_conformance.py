"""A test made by ``conforms_to`` behaves as a test of one's own: fixtures, methods, marks, seeds."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cumae.properties.dialects import DIALECTS
from cumae.properties.operations import OPERATIONS
from cumae.properties.operations.binding import binding_of
from cumae.properties.pytest_plugin.conforms_to import conforms_to
from cumae.properties.running.device import prepare
from cumae.properties.search.direct import check
from cumae.properties.tests.functions import wrong_on_purpose as wrong
from cumae.properties.tests.helpers.command_line import cumae
from cumae.properties.tests.pytest_plugin.test_plugin import run_pytest, write_test

prepare("auto")
FILL = """
import pytest
import torch
from cumae import conforms_to

def fill(context_lens, query_lens, position_ids, shift=0):
    position_ids.zero_()
    row = 0
    for context_len, query_len in zip(context_lens.tolist(), query_lens.tolist()):
        position_ids[row:row + query_len] = torch.arange(context_len, context_len + query_len) + shift
        row += query_len
"""
METHODS = (
    FILL
    + """
@pytest.fixture
def workspace():
    return [0]

class TestPositions:
    shift = 0

    @pytest.mark.parametrize("tile", [16, pytest.param(1, marks=pytest.mark.xfail(reason="one is too far"))])
    @conforms_to("position_ids", fixtures=("workspace", "tile", "request"), checks=("agrees",), examples=5)
    def test_positions(self, context_lens, query_lens, position_ids, workspace, tile, request):
        workspace[0] += 1
        assert request.node.name.startswith("test_positions[agrees-")
        fill(context_lens, query_lens, position_ids, self.shift + (tile == 1))
"""
)


@pytest.mark.parametrize("arguments", [(), ("-p", "xdist", "-n", "2")])
def test_methods_fixtures_marks_and_strict_xfail_work(
    arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "1")
    write_test(tmp_path, METHODS)
    done = run_pytest(tmp_path, "--cumae-device", "cpu", "-o", "xfail_strict=true", *arguments)
    assert done.returncode == 0, done.stdout
    assert "1 passed, 1 xfailed" in done.stdout
    assert "comparisons, 0 not promised" in done.stdout


def test_what_only_pytest_can_fill_is_reproduced_by_pytest(tmp_path: Path) -> None:
    write_test(tmp_path, METHODS.replace("shift = 0\n\n", "shift = 1\n\n"))
    done = run_pytest(tmp_path, "--cumae-device", "cpu", "-k", "agrees-16")
    assert done.returncode == 1
    assert "reproduce: pytest 'test_it.py::TestPositions::test_positions[agrees-16]'" in done.stdout
    (file,) = (tmp_path / ".cumae" / "failures").glob("*.json")
    refused = cumae("replay", str(file), cwd=tmp_path)
    assert refused.returncode == 2
    assert "must be run by pytest, which fills self, workspace, tile, request" in refused.stderr


def test_a_failing_test_is_replayed_from_its_file_and_tried_first(tmp_path: Path) -> None:
    folder = tmp_path / "inner"
    folder.mkdir()
    body = '\n@conforms_to("position_ids", checks=("agrees",))\ndef test_positions(context_lens, query_lens, '
    body += "position_ids):\n    fill(context_lens, query_lens, position_ids, 1)\n"
    write_test(folder, FILL + body)
    done = run_pytest(tmp_path, "--cumae-device", "cpu", "inner/test_it.py")
    assert done.returncode == 1
    (file,) = (tmp_path / ".cumae" / "failures").glob("*.json")
    again = cumae("replay", str(file), cwd=tmp_path)
    assert (again.returncode, again.stderr) == (1, "")
    assert "inner/test_it.py:test_positions disagrees with position_ids" in again.stdout
    done = run_pytest(tmp_path, "--cumae-device", "cpu", "inner/test_it.py")
    assert "found after 1 case" in done.stdout


def test_a_test_that_needs_a_gpu_is_skipped_for_that_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    body = '\ntest_positions = conforms_to("position_ids", device="cuda", checks=("agrees",))(fill)\n'
    write_test(tmp_path, FILL + body)
    done = run_pytest(tmp_path, "--cumae-device", "cpu", "-rs")
    assert done.returncode == 0, done.stdout
    assert "device='cuda': no GPU to run on" in done.stdout
    assert "cumae:" not in done.stdout


def test_a_wrong_name_is_an_error_at_collection(tmp_path: Path) -> None:
    body = '\n@conforms_to("position_ids")\ndef test_positions(context_lens, workspace, position_ids): ...\n'
    write_test(tmp_path, FILL + body)
    done = run_pytest(tmp_path, "--cumae-device", "cpu")
    assert done.returncode == 2
    assert "parameter = 'workspace' (did you mean 'workspace" in done.stdout
    assert "must be an output of position_ids (position_ids) or an input of" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ({"fixtures": ("workspace",)}, r"fixtures = 'workspace', must be a parameter of one_too_far"),
        ({"device": "cpu"}, r"device = 'cpu', must be one of 'any', 'cuda'"),
        ({"checks": ("agree",)}, r"checks = 'agree' \(did you mean 'agrees'\?\), must be one of 'agrees', "),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, Any], rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        conforms_to("position_ids", **arguments)(wrong.one_too_far)


def test_an_operation_and_a_dialect_of_ones_own_are_taken() -> None:
    operation = replace(OPERATIONS["position_ids"], name="positions_of_mine")
    dialect = replace(DIALECTS["cumae"], name="mine")
    verdict = check(wrong.padding_left_alone, operation, dialect=dialect, checks=("agrees",), examples=5)
    assert (verdict.operation, verdict.dialect) == ("positions_of_mine", "mine")
    assert (verdict.status, verdict.cases - verdict.toured) == ("agrees", 5)


def test_a_test_made_by_conforms_to_keeps_its_binding() -> None:
    made = conforms_to("position_ids")(wrong.one_too_far)
    assert binding_of(made, None).operation.name == "position_ids"
    with pytest.raises(ValueError, match="operation = 'slot_mapping', must be position_ids"):
        binding_of(made, "slot_mapping")
    with pytest.raises(ValueError, match="dialect = 'sglang', must be cumae"):
        binding_of(made, None, "sglang")


OF_A_TEST = """
@conforms_to("position_ids", checks=("agrees",))
def test_positions(context_lens, query_lens, position_ids):
    fill(context_lens, query_lens, position_ids)
"""
WRAPPED = """
test_again = conforms_to("position_ids")(test_positions)
"""
CALLED = """
@conforms_to("position_ids", checks=("agrees",))
def test_again(context_lens, query_lens, position_ids):
    test_positions(context_lens, query_lens, position_ids)
"""


@pytest.mark.parametrize("body", [WRAPPED, CALLED])
def test_a_test_in_place_of_a_function_is_the_callers_error(body: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(FILL + OF_A_TEST + body)
    run = cumae("fuzz", "mine.py:test_again", "--cases", "5", cwd=tmp_path)
    assert run.returncode == 2, run.stdout
    (line,) = run.stderr.splitlines()
    assert "function = 'test_positions', must be a plain function, not a test by conforms_to: " in line
    assert "write `test = conforms_to(...)(function)` beside it" in line
