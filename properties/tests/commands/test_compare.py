"""``cumae compare``: two functions, and one function in two versions of its source tree."""

import re
import subprocess
import zipfile
from pathlib import Path

import pytest

from cumae.properties.running.device import prepare
from cumae.properties.tests.helpers.command_line import cumae
from cumae.properties.tests.helpers.own_tree import FILE, OP, SOURCE, TARGET, write_tree
from cumae.properties.tests.helpers.python_process import Done

QUICK = ("--cases", "3", "--no-speed")


def compared(folder: Path, *arguments: str) -> Done:
    return cumae("compare", *arguments, cwd=folder)


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=nobody", "-c", "user.email=nobody@localhost")
    command = ["git", "-C", str(folder), *who, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository whose second commit and working tree add 1 to each position."""
    folder = tmp_path / "repository"
    for first in (0, 1):
        write_tree(folder, first)
        if not first:
            git(folder, "init", "-q", "-b", "main")
        git(folder, "add", ".")
        git(folder, "commit", "-q", "-m", f"first is {first}")
    return folder


def test_equal_functions_compare_equal_with_the_ratio_of_their_times(tmp_path: Path) -> None:
    name = "cumae.gpu_impl:write_position_ids"
    same = compared(tmp_path, name, name, *OP, "--cases", "10", "--speed")
    assert same.returncode == 0, same.stderr
    # 21 fixtures, and 19 of sizes; ranges inside a kernel show only where it is interpreted.
    count = "50" if prepare("auto") == "cpu" else r"\d\d"
    assert re.match(rf"equal: {count} cases, every output bit for bit", same.stdout)
    assert "time of candidate / base: " in same.stdout


def test_a_difference_between_two_functions_is_saved_and_shown_again(tmp_path: Path) -> None:
    base = "cumae.gpu_impl:write_position_ids"
    candidate = "cumae.properties.tests.functions.wrong_on_purpose:padding_left_alone"
    found = compared(tmp_path, base, candidate, *OP, "--cases", "10")
    assert found.returncode == 1, found.stderr
    assert "`position_ids[0]` differs between the two" in found.stdout
    assert "padding: 1 token  ✗" in found.stdout
    assert "at token 0: padding" in found.stdout
    (file,) = (tmp_path / ".cumae" / "failures").glob("*.json")
    again = compared(tmp_path, base, candidate, *OP, "--case", str(file))
    assert again.returncode == 1
    assert "`position_ids[0]` differs between the two" in again.stdout


def test_a_change_of_the_working_tree_is_found_and_shown_again(repository: Path) -> None:
    found = compared(repository, "--base", "HEAD~1", TARGET, *OP, *QUICK)
    assert found.returncode == 1, found.stderr
    assert f"{TARGET} of the working tree differs from {TARGET} of HEAD~1" in found.stdout
    assert "`position_ids[0]` differs between the two" in found.stdout
    (file,) = (repository / ".cumae" / "failures").glob("*.json")
    shown = f"reproduce: cumae compare --base 'HEAD~1' {TARGET} --op position_ids --case "
    assert shown in found.stdout
    again = compared(repository, "--base", "HEAD~1", TARGET, *OP, "--case", str(file))
    assert again.returncode == 1
    write_tree(repository)
    assert compared(repository, "--base", "HEAD~1", TARGET, *OP, "--case", str(file)).returncode == 0


def test_two_revisions_leave_the_checkout_as_it_was(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    (repository / FILE).write_text("half written(\n")
    before = {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in repository.rglob("*") if p.is_file()}
    given = ("--base", "HEAD", "--candidate", "main", "--repo", str(repository), TARGET)
    same = compared(tmp_path, *given, *OP, *QUICK)
    assert same.returncode == 0, same.stderr
    assert same.stdout.startswith("equal: ")
    assert before == {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in repository.rglob("*") if p.is_file()}
    assert list(scratch.glob("cumae-version-*")) == []


def test_a_folder_and_a_wheel_are_versions_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    tree, wheel = write_tree(tmp_path / "tree"), tmp_path / "own-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in SOURCE:
            archive.write(tree / name, name)
    same = compared(tmp_path, "--base", str(wheel), "--candidate", "tree", TARGET, *OP, "--cases", "3")
    assert same.returncode == 0, same.stderr
    assert "time of candidate / base: " in same.stdout
    assert ("µs" in same.stdout) == (prepare("auto") == "cuda")


def test_an_adapter_brings_operation_dialect_and_domain(tmp_path: Path) -> None:
    index = (
        "import torch\ndef prepare_position_ids(cu_seqlens):\n    return torch.cat([torch.arange(n, device"
    )
    index += "=cu_seqlens.device) FIRST for n in cu_seqlens.diff().tolist()])\n"
    for name, first in (("old", ""), ("new", "+ (n > 2)")):
        file = tmp_path / name / "fla/ops/utils/index.py"
        file.parent.mkdir(parents=True)
        file.write_text(index.replace("FIRST", first))
    versions = ("--base", "old", "--candidate", "new")
    found = compared(tmp_path, *versions, "fla:prepare_position_ids", *QUICK)
    assert found.returncode == 1, found.stderr
    assert "`position_ids[0]` differs between the two" in found.stdout
    refused = compared(tmp_path, *versions, "fla:prepare_position_ids", *OP)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "--op = 'position_ids', must be left out: the adapter brings its own" in refused.stderr


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"def positions": "def places"}, "names = 'positions', must be defined in own/kernels/positions.py"),
        ({"num_tokens_padded):": "num_tokens_padded, num_slots):"}, ", must have positions(context_lens, "),
    ],
)
def test_a_function_that_is_gone_or_takes_other_arguments_is_one_line(
    tmp_path: Path, changes: dict[str, str], told: str
) -> None:
    write_tree(tmp_path / "old")
    write_tree(tmp_path / "new", changes=changes)
    refused = compared(tmp_path, "--base", "old", "--candidate", "new", TARGET, *OP)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert refused.stderr.startswith("cumae: --candidate = 'new', must have ")
    assert told in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((TARGET, *OP), ", must be two functions, BASE and CANDIDATE"),
        (("--base", "own", TARGET, TARGET, *OP), ", must be one function, compared with --base"),
        (("--candidate", "own", TARGET, TARGET, *OP), "--candidate = 'own', must be left out without --base"),
        (
            ("--base", "v9", "--candidate", ".", TARGET, *OP),
            "--base = 'v9', must be a folder, a wheel or a rev",
        ),
        (("--base", ".", TARGET, *OP), "--candidate = None, must be given: . is not in a git repository"),
        (("--base", ".", "--candidate", ".", TARGET), "--op = None, must name the operation that TARGET"),
        (("--base", ".", "--candidate", ".", "own", *OP), "TARGET = 'own', must be path/in/tree.py:function"),
        (("--base", ".", "--candidate", ".", "vllm:f"), "TARGET = 'f', must be one of "),
    ],
)
def test_bad_input_names_the_field_and_the_rule(
    tmp_path: Path, arguments: tuple[str, ...], told: str
) -> None:
    write_tree(tmp_path)
    refused = compared(tmp_path, *arguments)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert told in refused.stderr


def test_floats_that_differ_are_shown_as_numbers_with_their_bits(tmp_path: Path) -> None:
    (tmp_path / "doubled.py").write_text(
        "from cumae.fixtures.correct.router import grouped_topk as right\n\n"
        "def doubled(logits, bias, num_groups, topk_group, top_k, scaling_factor, renormalize):\n"
        "    given = logits, bias, num_groups, topk_group, top_k, scaling_factor, renormalize\n"
        "    ids, weights = right(*given)\n"
        "    return ids, 2 * weights\n"
    )
    base, of = "cumae.fixtures.correct.router:grouped_topk", ("--op", "grouped_topk")
    found = compared(tmp_path, base, "doubled:doubled", *of, *QUICK)
    assert found.returncode == 1, found.stderr
    shown = re.findall(r"([\d.]+) \(bits 0x[0-9a-f]{8}\)", found.stdout)
    was, has = sorted(map(float, shown))[:2]
    assert has == 2 * was > 0
