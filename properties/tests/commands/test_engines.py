"""``cumae engines``: a table of functions, and clear errors."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cumae.properties.commands.usage.engines import engines
from cumae.properties.engines import lightllm, released, sglang
from cumae.properties.engines.fla import ENGINE

INDEX = """
import absent_config as config
import torch
import triton

class Step:
    pass

def prepare_position_ids(cu_seqlens):
    lens = (cu_seqlens[1:] - cu_seqlens[:-1]).tolist()
    return torch.cat([torch.arange(n, device=cu_seqlens.device) + FIRST for n in lens])

def prepare_cu_seqlens_from_lens(lens, dtype=None):
    return torch.cat([lens.new_zeros(1), lens.cumsum(0)]).to(dtype)
"""

SUMS = """
import torch

def gen_cumsum_pad0_tensor(queries, keys):
    def sums(lens):
        tiles = [lens[i // 1024 * STRIDE :][: len(lens) - i][:1024] for i in range(0, len(lens), 1024)]
        return torch.cat([lens.new_zeros(1), torch.cat(tiles).cumsum(0)]).int()

    return sums(queries), sums(keys)
"""


COUNTS: dict[str, Any] = {"cases": 1, "comparisons": 1, "seconds": 0.0, "largest": {}, "report": ""}


def _tree(folder: Path, first: int) -> Path:
    file = folder / ENGINE.adapters["prepare_position_ids"].file
    file.parent.mkdir(parents=True)
    file.write_text(INDEX.replace("FIRST", str(first)))
    return folder


def _run(*arguments: str) -> tuple[int, str]:
    ran = CliRunner().invoke(engines, arguments, standalone_mode=False)
    if ran.exception is not None:
        raise ran.exception
    return ran.return_value, ran.output


@pytest.mark.parametrize(("first", "status"), [(0, 0), (1, 1)])
def test_a_tree_is_judged_without_being_imported(tmp_path: Path, first: int, status: int) -> None:
    out, only = tmp_path / "out.json", ("--only", "prepare_position_ids", "--cases", "5")
    given = ("fla", "--at", str(_tree(tmp_path / "tree", first)), *only, "--json", str(out))
    found, text = _run(*given)
    assert found == status
    (one,) = json.loads(out.read_text())["functions"]
    assert one["function"] == "prepare_position_ids"
    assert one["status"] == ("agrees" if status == 0 else "NEW")
    assert f"{1 - status} of 1 function" in text
    assert ("differs from the oracle" in text) == bool(status)


def test_a_function_that_is_gone_is_said(tmp_path: Path) -> None:
    tree = _tree(tmp_path / "tree", 0)
    found, text = _run("fla", "--at", str(tree), "--only", "prepare_token_indices")
    assert found == 1
    assert "gone" in text
    assert "prepare_token_indices" in text


@pytest.mark.parametrize(
    ("before", "behind", "told"),
    [
        ("(cu_seqlens)", "(cu_seqlens, device)", "missing 1 required positional argument: 'device'"),
        ("FIRST for", "__import__('types').SimpleNamespace().first for", "object has no attribute 'first'"),
        ("FIRST for", "Step().first for", "'Step' object has no attribute 'first'"),
        ("FIRST for", "config.first + 0 for", "take(…, absent_config=…)"),
        (
            "def prepare_position_ids(cu_seqlens):",
            "@triton.jit\ndef prepare_position_ids(cu_seqlens, out): pass\n\ndef other(cu_seqlens):",
            "",
        ),
    ],
)
def test_a_function_that_takes_other_arguments_has_changed_and_does_not_disagree(
    before: str, behind: str, told: str, tmp_path: Path
) -> None:
    tree = _tree(tmp_path / "tree", 0)
    file = tree / ENGINE.adapters["prepare_position_ids"].file
    file.write_text(INDEX.replace(before, behind).replace("FIRST", "0"))
    found, text = _run("fla", "--at", str(tree), "--only", "prepare_position_ids")
    assert found == 1
    assert "1 of 1  changed prepare_position_ids (" in text
    assert f"{told}: its adapter passes" in text


@pytest.mark.parametrize(
    ("parameters", "body", "status"),
    [
        ("lens, last, pages, slots, WIDTH, SIZE, MORE", "pass", "changed"),
        ("lens, last, pages, slots, WIDTH, SIZE", "tl.store(slots, tl.arange(0, 3))", "NEW"),
        ("lens, last, pages, slots, WIDTH, SIZE", "tl.static_assert(SIZE < 0)", "NEW"),
    ],
)
def test_a_kernel_that_raises_disagrees_and_one_with_other_parameters_has_changed(
    parameters: str, body: str, status: str, tmp_path: Path
) -> None:
    name = "alloc_decode"
    file = tmp_path / sglang.ENGINE.adapters[name].file
    file.parent.mkdir(parents=True)
    start = "import triton\nimport triton.language as tl\n\n@triton.jit\ndef alloc_decode_kernel"
    file.write_text(f"{start}({parameters}):\n    {body}\n")
    found, text = _run("sglang", "--at", str(tmp_path), "--only", name, "--cases", "5")
    assert found == 1
    assert f"1 of 1  {status:<7} {name} (" in text, text


@pytest.mark.parametrize(("stride", "status", "told"), [("0", 0, "known"), ("1024", 1, "mended")])
def test_a_known_disagreement_is_shown_by_its_case(
    stride: str, status: int, told: str, tmp_path: Path
) -> None:
    """A sum of tiles of 1,024 requests that loads the first one's lengths again, and one that does not."""
    name = "gen_cumsum_pad0_tensor"
    file = tmp_path / lightllm.ENGINE.adapters[name].file
    file.parent.mkdir(parents=True)
    file.write_text(SUMS.replace("STRIDE", stride))
    given = ("lightllm", "--at", str(tmp_path), "--only", name, "--cases", "5")
    found, text = _run(*given)
    assert found == status
    assert f"1 of 1  {told:<7} {name} (" in text
    assert "\n\n" not in text
    assert "lengths of the first 1,024 requests" in text


def test_a_function_that_kills_its_process_is_told(tmp_path: Path) -> None:
    tree = _tree(tmp_path / "tree", 0)
    file = tree / ENGINE.adapters["prepare_position_ids"].file
    file.write_text(INDEX.replace("import torch", "import os, torch").replace("FIRST", "os._exit(3)"))
    found, text = _run("fla", "--at", str(tree), "--only", "prepare_position_ids")
    assert found == 1
    assert "the function killed its process" in text


def test_an_error_of_one_search_loses_nothing_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def one_and_an_error(*arguments: object) -> Iterator[dict[str, Any]]:
        yield {"engine": "fla", "file": "", "function": "first", "operation": "", "status": "agrees"} | COUNTS
        raise RuntimeError("of the suite")

    monkeypatch.setattr(released, "all_tried", one_and_an_error)
    out = tmp_path / "out.json"
    with pytest.raises(RuntimeError, match="of the suite"):
        _run("fla", "--at", str(_tree(tmp_path / "tree", 0)), "--json", str(out))
    assert [one["function"] for one in json.loads(out.read_text())["functions"]] == ["first"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("nccl",), "NAME = 'nccl', must be one of"),
        (("fla", "--at", "/nowhere"), "--at = '/nowhere', must exist"),
        (("--at", "."), "NAME = None, must be given with --at"),
        (("fla", "--at", "."), "--at = '.', must hold fla: it has no file of its adapters"),
        (("fla", "--at", "TREE", "--only", "softmax"), "--only = 'softmax', must be one of"),
        (("fla",), "NAME = 'fla', must be installed, or given by --at: `pip download --no-deps fla-core`"),
    ],
)
def test_bad_input_names_the_field_and_the_rule(
    arguments: tuple[str, ...], told: str, tmp_path: Path
) -> None:
    tree = str(_tree(tmp_path, 0))
    with pytest.raises(ValueError, match=re.escape(told)):
        _run(*(tree if one == "TREE" else one for one in arguments))
