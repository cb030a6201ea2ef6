"""Operators make of source what they are for, and leave alone what refuses bad input."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

from cumae.properties.faults.judges import Target, tasks_of
from cumae.properties.faults.mutants import mutants_of, swapped
from cumae.properties.faults.operators import Names, faults_of
from cumae.properties.faults.scope import scope_of, taken_by
from cumae.properties.operations import OPERATIONS
from cumae.properties.tests.functions import mutated

MUTANTS = mutants_of(mutated.write_positions)
NAMES = Names(
    dict.fromkeys(("cu_seqlens_q", "cu_seqlens_k", "i_token", "i_request", "m_token", "a", "b"), 0),
    frozenset({"cu_seqlens_q", "cu_seqlens_k"}),
    frozenset({"_num_tokens", "_num_keys"}),
)
CHANGED = [
    ("a < b", "comparison swapped", "a <= b"),
    ("a < b", "bound moved by one", "a < b - 1"),
    ("7", "constant + 1", "8"),
    ("7", "constant - 1", "6"),
    ("-1", "constant - 1", "-2"),
    ("True", "flag turned", "False"),
    ("a // b", "operator exchanged", "a % b"),
    ("a + b", "operand dropped", "a"),
    ("a & b", "operator exchanged", "a | b"),
    ("a.to(tl.int64) * b", "cast after the product", "(a * b).to(tl.int64)"),
    ("a.to(tl.int64)", "cast dropped", "a"),
    ("-(-a // b)", "rounded down", "a // b"),
    ("not a", "condition negated", "a"),
    ("a and b", "operand dropped", "b"),
    ("a if b else 0", "choice dropped", "0"),
    ("cu_seqlens_q", "name exchanged", "cu_seqlens_k"),
    ("self._num_tokens", "name exchanged", "self._num_keys"),
    ("(a, *b)", "part dropped", "(a,)"),
    ("table.stride(0)", "stride taken from the shape", "table.contiguous().stride(0)"),
    ("tl.where(a, b, 0)", "choice dropped", "b"),
    ("tl.cumsum(a)", "scan dropped", "a"),
    ("tl.program_id(0)", "only the first program's part", "tl.program_id(0) * 0"),
    ("range(a, b, 4)", "last tile skipped", "range(a, b - 4, 4)"),
    ("range(a, b, 4)", "only the first tile", "range(a, b, 1 << 30)"),
    ("range(a, b, 4)", "starts at 0", "range(0, b, 4)"),
    ("kernel[(a,)](b)", "only the first program launched", "kernel[(1,)](b)"),
    ("tl.minimum(a, b)", "function exchanged", "tl.maximum(a, b)"),
    ("tl.load(a, mask=b, other=0)", "mask dropped", "tl.load(a)"),
    ("tl.load(a, mask=b, other=0)", "other dropped", "tl.load(a, mask=b, other=85)"),
]


@pytest.mark.parametrize(("source", "operator", "changed"), CHANGED)
def test_an_operator_changes_what_it_is_for(source: str, operator: str, changed: str) -> None:
    statement = ast.parse(source).body[0]
    assert isinstance(statement, ast.Expr)
    ast.increment_lineno(statement, 9)
    found = [(f.operator, f.text) for f in faults_of(statement.value, NAMES, in_kernel=False)]
    assert (operator, changed) in found


def test_a_launch_of_one_program_is_left_as_it_is() -> None:
    statement = ast.parse("kernel[(1,)](b)").body[0]
    assert isinstance(statement, ast.Expr)
    found = [fault.operator for fault in faults_of(statement.value, NAMES, in_kernel=False)]
    assert "only the first program launched" not in found


@pytest.mark.parametrize(
    ("operator", "after"),
    [
        ("condition removed", "if True:"),
        ("branch removed", "while False:"),
        ("statement deleted", "pass"),
        ("only the first program launched", "_write[(1,)]"),
    ],
)
def test_statements_and_launches_are_mutated_too(operator: str, after: str) -> None:
    assert any(m.operator == operator and after in m.after for m in MUTANTS)


def test_what_is_taken_is_told_and_not_mutated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "released.py").write_text("def twice(x):\n    return 2 * x\n")
    text = "from cumae import take\ntwice = take(__file__.replace('adapts', 'released'), 'twice')\n"
    (tmp_path / "adapts.py").write_text(f"{text}def launch(x):\n    return twice(x) + 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    launch = import_module("adapts").launch
    assert taken_by(launch) == ["twice"]
    assert taken_by(mutated.write_positions) == []
    assert {mutant.module for mutant in mutants_of(launch)} == {"adapts"}


def test_a_slice_stays_between_its_brackets() -> None:
    mutant = mutants_of(mutated.column)[0]
    assert (mutant.before, mutant.after) == ("    return table[:, 0]", "    return table[:, 1]")


def test_what_refuses_bad_input_is_left_alone() -> None:
    assert not [m for m in MUTANTS if "2**31" in m.before]


def test_kernels_of_other_modules_of_the_package_belong_to_a_target() -> None:
    from cumae import gpu_impl

    names = {part.name for part in scope_of(gpu_impl.write_sparse_schedule)}
    assert {"write_sparse_schedule", "_write_items", "count_keys", "_carry_over"} <= names
    assert "check_tensor" not in names


def test_every_mutant_is_python_that_stands_in_for_its_original_for_a_while() -> None:
    original = vars(mutated)["_write"]
    for mutant in MUTANTS:
        with swapped(mutant):
            changed = vars(mutated)[mutant.name]
        assert changed is not original and mutant.before != mutant.after
    assert vars(mutated)["_write"] is original
    assert len({mutant.source for mutant in MUTANTS}) == len(MUTANTS) > 60


def test_every_mutant_of_a_shipped_kernel_is_python() -> None:
    tasks = tasks_of([Target(kernel, name) for name in OPERATIONS for kernel in OPERATIONS[name].kernels])
    assert len(tasks) > 10_000
    for task in tasks:
        compile(task.mutant.source, task.mutant.name, "exec", dont_inherit=True)
