"""The page on an operation of one's own: its lines run, in every dialect, and catch what is wrong."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import cumae
from cumae.oracle import INPUTS
from cumae.properties import operations
from cumae.properties.operations.axes import AXES
from cumae.properties.operations.expected import names_of_the_dialect
from cumae.properties.results.verdict import Verdict
from cumae.properties.running.device import prepare
from cumae.properties.tests.helpers.command_line import cumae as command

prepare("auto")
PAGE = Path(operations.__file__).parent / "your-own.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)


def verdict_on(code: str, name: str, **more: Any) -> Verdict:
    """Return the verdict on a test of the page."""
    known: dict[str, Any] = {"__name__": "page"}
    exec(compile(code, str(PAGE), "exec"), known)
    domain = cumae.Domain(all_but=("never_synchronises",))
    return cumae.check(known[name], known["LAST_PAGE_LEN"], domain=domain, examples=20, save_to=None, **more)


def changed(right: str, wrong: str) -> str:
    """Return the first example with another function."""
    head, _, function = BLOCKS[0].rpartition("def test")
    assert right in function
    return f"{head}def test{function.replace(right, wrong)}"


def test_the_first_example_has_25_lines() -> None:
    assert len([line for line in BLOCKS[0].splitlines() if line.strip()]) <= 25


@pytest.mark.parametrize("name", ["test_last_page_len", "test_last_page_len_of_sglang"])
def test_the_examples_run(name: str) -> None:
    verdict = verdict_on("\n".join(BLOCKS), name)
    assert verdict.ok, verdict.failure
    assert "forgets_history" in verdict.checks


def on_experts(right: str = "", wrong: str = "") -> Verdict:
    """Return the verdict on the page's function with a judge, or on a changed one."""
    code, known = "\n".join(BLOCKS), dict[str, Any](__name__="page")
    assert right in code
    exec(compile(code.replace(right, wrong) if right else code, str(PAGE), "exec"), known)
    domain = cumae.Domain(all_but=("never_synchronises",))
    named: dict[str, Any] = {"dialect": known["ROUTED"], "domain": domain, "examples": 20, "save_to": None}
    return cumae.check(known["test_tokens_by_expert"], known["BY_EXPERT"], **named)


def test_the_example_with_a_judge_runs() -> None:
    verdict = on_experts()
    assert verdict.ok, verdict.failure


@pytest.mark.parametrize(
    ("wrong", "told"),
    [("argsort(descending=True)", "experts must not fall"), ("argsort() * 0", "each token must stand once")],
)
def test_the_judge_finds_a_wrong_order(wrong: str, told: str) -> None:
    verdict = on_experts("argsort()", wrong)
    assert verdict.failure is not None
    assert (verdict.failure.finding.check, verdict.failure.finding.message) == ("agrees", told)


def test_a_judge_that_raises_is_named(tmp_path: Path) -> None:
    code = "\n".join(BLOCKS).replace('outputs["sorted_tokens"]', 'outputs["tokens"]')
    (tmp_path / "test_experts.py").write_text(code)
    done = command("fuzz", "test_experts.py:test_tokens_by_expert", "--cases", "5", cwd=tmp_path)
    assert done.returncode == 2
    told = r"its judge raised KeyError: 'tokens' \(test_experts.py:\d+ in faults\), for "
    assert re.match(f"cumae: tokens_by_expert: {told}", done.stderr), done.stderr


@pytest.mark.parametrize(
    ("right", "wrong", "check"),
    [
        ("(seq_lens - 1) % block_size + 1, 0", "seq_lens % block_size, 0", "agrees"),
        ("seq_lens > 0, ", "seq_lens == seq_lens, ", "agrees"),
        (
            "kv_last_page_len.copy_",
            "if len(seq_lens) < 3:\n        kv_last_page_len.copy_",
            "writes_everything",
        ),
    ],
)
def test_a_wrong_function_is_caught(right: str, wrong: str, check: str) -> None:
    verdict = verdict_on(changed(right, wrong), "test_last_page_len", checks=["agrees", "writes_everything"])
    assert verdict.failure is not None
    assert verdict.failure.finding.check == check
    assert verdict.failure.finding.rule == "(length - 1) % page size + 1; 0 without tokens"


def test_a_failure_of_an_own_operation_replays_from_its_line(tmp_path: Path) -> None:
    (tmp_path / "test_last_page_len.py").write_text(changed(" - 1) %", ") %"))
    line = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--cumae-device=auto", "-k", "agrees"]
    done = subprocess.run(
        [sys.executable, *line], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    text = re.search(r"without a file: cumae replay '(\S+)'", done.stdout)
    assert text is not None, done.stdout
    again = command("replay", text[1], "--no-isolate", cwd=tmp_path)
    assert again.returncode == 1, again.stderr
    assert "`kv_last_page_len[0]` differs from the oracle" in again.stdout


def test_a_parameter_of_an_oracle_that_nobody_has_is_refused() -> None:
    def of(seq_len: list[int]) -> None:
        """Misspell a name."""

    def kernel(seq_lens: object, out: object) -> None:
        """Never runs."""

    operation = cumae.Operation("mine", of, (cumae.Output("out", "int32", "request"),))
    with pytest.raises(
        ValueError, match=r"parameter = 'seq_len' of the oracle of mine .did you mean 'seq_lens'"
    ):
        cumae.check(kernel, operation, dialect="vllm", examples=1, save_to=None)


def test_no_shipped_oracle_needs_a_dialect() -> None:
    for operation in cumae.OPERATIONS.values():
        assert names_of_the_dialect(operation.oracle) == ()


def test_the_list_of_axes_names_and_explains_all(tmp_path: Path) -> None:
    listed = command("list", "--axes", cwd=tmp_path)
    assert listed.returncode == 0
    for name, axis in AXES.items():
        assert axis.counts
        assert re.search(rf"^  {name} .*{re.escape(axis.counts)}$", listed.stdout, re.M)
    for name in INPUTS:
        assert re.search(rf"^  {name} ", listed.stdout, re.M)
    assert max(map(len, listed.stdout.splitlines())) <= 100
    assert "  seq_lens                   [5, 0, 6, 0]\n" in listed.stdout
    assert "  request                     3 of 4  requests\n" in listed.stdout


def test_a_command_takes_the_operation_from_the_test(tmp_path: Path) -> None:
    (tmp_path / "test_own.py").write_text(changed("(seq_lens - 1) % block_size + 1, 0", "seq_lens, 0"))
    target = "test_own.py:test_last_page_len"
    found = command("fuzz", target, "--cases", "5", cwd=tmp_path)
    assert found.returncode == 1, found.stderr
    assert "test_own.py:test_last_page_len disagrees with last_page_len: agrees" in found.stdout
    equal = command("compare", target, target, "--cases", "5", cwd=tmp_path)
    assert equal.stdout.startswith("equal: ")


@pytest.mark.parametrize(
    ("operation", "rule"),
    [
        (
            "test_own.py:LAST_PAGE_LEN",
            "must be left out for an operation of your own: put conforms_to(OPERATION)",
        ),
        ("position_ids", "must be last_page_len, which test_own:test_last_page_len conforms to"),
    ],
)
def test_another_operation_than_that_of_the_test_is_refused(
    operation: str, rule: str, tmp_path: Path
) -> None:
    (tmp_path / "test_own.py").write_text(BLOCKS[0])
    refused = command("fuzz", "test_own.py:test_last_page_len", "--op", operation, cwd=tmp_path)
    assert (refused.returncode, rule in refused.stderr) == (2, True), refused.stderr
