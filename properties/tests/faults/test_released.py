"""Mutants of released kernels: those that a function uses, planted beside its neighbours."""

import json
from pathlib import Path

from cumae.properties.faults.released import kernel_mutants, planted

SOURCE = """
import triton
import triton.language as tl

from engine.sizes import SIZE


@triton.jit
def _copy(rows, out, count, TILE: tl.constexpr):
    offs = tl.program_id(0) * TILE + tl.arange(0, TILE)
    tl.store(out + offs, tl.load(rows + offs, mask=offs < count), mask=offs < count)


@triton.jit
def _of_another(out):
    tl.store(out + 1, 0)


def copied(rows, out):
    _copy[(1,)](rows, out, len(out), TILE=SIZE)
"""


def test_the_first_mutants_of_the_kernels_that_a_function_uses() -> None:
    found = kernel_mutants(SOURCE, ("copied",), 3)
    assert [mutant.name for mutant in found] == ["_copy"] * 3
    changed = {SOURCE[: one.start] + one.text + SOURCE[one.stop :] for one in found}
    assert len(changed | {SOURCE}) == 4
    for text in changed:
        compile(text, "mutant", "exec")


def test_assertions_are_left_alone() -> None:
    asserted = SOURCE.replace("    offs =", "    tl.static_assert(TILE > 0, 'no tile')\n    offs =")
    every = [{one.operator for one in kernel_mutants(text, ("copied",), 99)} for text in (SOURCE, asserted)]
    lines = [one.diff for one in kernel_mutants(asserted, ("copied",), 99)]
    assert every[0] == every[1]
    assert len(lines) == len(kernel_mutants(SOURCE, ("copied",), 99)) > 3
    assert not any("static_assert" in line for line in lines)


def test_a_planted_file_has_its_neighbours_and_the_original_stays(tmp_path: Path) -> None:
    package = tmp_path / "engine"
    (package / "ops").mkdir(parents=True)
    files = {"engine/sizes.py": "SIZE = 4\n", "engine/ops/copy.py": SOURCE, "engine/ops/other.json": "[1]"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with planted(tmp_path, "engine/ops/copy.py", "changed") as tree:
        assert (tree / "engine/ops/copy.py").read_text() == "changed"
        assert (tree / "engine/sizes.py").read_text() == "SIZE = 4\n"
        assert json.loads((tree / "engine/ops/other.json").read_text()) == [1]
    assert not tree.exists()
    assert (package / "ops/copy.py").read_text() == SOURCE
