"""Coverage of interpreted kernels: lines, branches, masks and loops, told until a search asks for them."""

from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from cumae.properties.interpreter.coverage import collecting
from cumae.properties.interpreter.hooks import watching
from cumae.properties.results.coverage import KernelCoverage, coverage_lines, merged, not_asked
from cumae.properties.running.device import prepare
from cumae.properties.search.direct import check
from cumae.properties.tests.functions import covered

pytestmark = pytest.mark.skipif(prepare("auto") != "cpu", reason="a GPU does not say which lines run")
SOURCE = Path(covered.__file__).read_text().splitlines()


def line_of(text: str) -> int:
    """Return the only line of the kernels that is a text, or else begins with it."""
    lines = [(i, line.strip()) for i, line in enumerate(SOURCE, 1)]
    (number,) = [i for i, line in lines if line == text] or [i for i, line in lines if line.startswith(text)]
    return number


def covering(*counts: int, half: bool = False) -> dict[str, KernelCoverage]:
    """Return the coverage of each kernel after launches over these numbers of elements."""
    with collecting() as seen, watching():
        for count in counts:
            covered.launch(torch.zeros(16, dtype=torch.int64), count, half)
            covered.clear[(1,)](torch.zeros(16, dtype=torch.int64), count)
    return {kernel.name: kernel for kernel in seen.coverage(covered.launch)}


def told_of(name: str, *counts: int, half: bool = False) -> list[str]:
    return not_asked(covering(*counts, half=half)[name])


def test_lines_that_never_ran_are_told_with_their_statements_first_line() -> None:
    told = told_of("fill", 0)
    first, last = line_of("o_element = "), line_of("tl.store(")
    assert f"lines {first}-{last} never ran" in told
    assert f"line {line_of('tl.store(out, -1)')} never ran" in told


def test_a_function_called_by_the_kernel_is_covered_and_tritons_own_are_not() -> None:
    kernels = covering(4)
    assert set(kernels) == {"clear", "fill", "halved"}
    assert not_asked(kernels["halved"]) == [f"line {line_of('return value // 2')} never ran"]
    assert told_of("halved", 4, half=True)[-1] == f"if at line {line_of('if HALF')} never false"


@pytest.mark.parametrize(
    ("counts", "told"), [((4, 8), "never false"), ((3, 4), None), ((3,), None), ((0,), None)]
)
def test_a_mask_is_told_until_one_lane_is_false(counts: tuple[int, ...], told: str | None) -> None:
    masks = [text for text in told_of("fill", *counts) if text.startswith("mask")]
    assert masks == ([f"mask at line {line_of('tl.store(')} {told}"] if told else [])
    assert f"where at line {line_of('tl.where(')} never false" in told_of("fill", 3)


@pytest.mark.parametrize(("counts", "is_told"), [((4, 3, 4), True), ((5,), False), ((1, 16), False)])
def test_a_loop_is_told_until_one_execution_takes_two_turns(counts: tuple[int, ...], is_told: bool) -> None:
    told = f"loop at line {line_of('for i in range(0, count, BLOCK)')} never ran twice"
    assert (told in told_of("fill", *counts)) is is_told


def test_a_loop_counts_the_turns_of_its_longest_execution() -> None:
    loops = {loop.line: loop.most_turns for loop in covering(4, 13, 1)["fill"].loops}
    assert loops == {line_of("for i in range(0, count, BLOCK)"): 4, line_of("while low"): 2}


def test_a_kernel_that_is_asked_everything_is_told_nothing() -> None:
    kernels = covering(0, 3, 4)["halved"], covering(3, half=True)["halved"]
    assert all(map(not_asked, kernels))
    (both,) = merged(kernels)
    assert not_asked(both) == []
    assert list(coverage_lines([both])) == [
        f"halved (covered.py:{line_of('def halved') - 1}): 3 of 3 lines ran"
    ]


def test_each_collection_has_its_own_part() -> None:
    with collecting() as outer, watching():
        inner = covering(5)
        covered.launch(torch.zeros(16, dtype=torch.int64), 0, False)
    (told,) = [kernel for kernel in outer.coverage(covered.launch) if kernel.name == "fill"]
    assert line_of("o_element = ") in told.never_ran
    assert line_of("o_element = ") not in inner["fill"].never_ran


def test_marks_leave_values_as_they_are() -> None:
    out = torch.full((16,), -7)
    with watching():
        covered.launch(out, 13, False)
    assert out.tolist() == [*range(13), -7, -7, -7]


def test_a_search_tells_what_its_kernels_were_not_asked() -> None:
    verdict = check(covered.launch_or_clear, "position_ids", checks=("agrees",), examples=3, save_to=None)
    assert verdict.ok, verdict
    kernels = {kernel.name: not_asked(kernel) for kernel in verdict.coverage}
    assert kernels["clear"] == ["it never ran"]
    assert f"line {line_of('return value // 2')} never ran" in kernels["halved"]
    assert f"loop at line {line_of('for i in range(0, count, BLOCK)')} never ran twice" not in kernels["fill"]


@pytest.mark.skipif(find_spec("coverage") is None, reason="coverage.py is an extra")
@pytest.mark.parametrize("counts", [(0,), (3,), (13, 0)])
def test_the_steps_between_lines_are_those_of_coverage_py(counts: tuple[int, ...]) -> None:
    from coverage import Coverage

    measurement = Coverage(data_file=None, branch=True, include=[covered.__file__])
    covering(*counts)  # marks the kernels before the measurement begins
    with measurement.collect():
        kernels = covering(*counts)
    theirs = measurement.get_data().arcs(covered.__file__)
    assert theirs is not None
    for kernel in kernels.values():
        of_kernel = {_of_statements(kernel, *arc) for arc in theirs if {*arc} & {*kernel.lines}}
        assert {_of_statements(kernel, *arc) for arc in kernel.arcs} == {
            (start, end) for start, end in of_kernel if start != end
        }


def _of_statements(kernel: KernelCoverage, *arc: int) -> tuple[int, ...]:
    """Return a step between first lines of statements, -1 outside: interpreted kernels have no decorators."""
    return tuple(max((line for line in kernel.lines if line <= at), default=-1) for at in arc)
