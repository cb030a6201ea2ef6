"""Facts about the numbers that launches show."""

import pytest
import torch
import triton
import triton.language as tl

from cumae.properties.interpreter.hooks import watching
from cumae.properties.running.device import prepare
from cumae.properties.running.launches import TooMuchWork, noting_launches

pytestmark = pytest.mark.skipif(prepare("auto") == "cuda", reason="programs are counted in the interpreter")


@triton.jit
def _count(out: tl.tensor, num: tl.tensor, TILE: tl.constexpr) -> None:
    o_row = tl.program_id(0) * TILE + tl.arange(0, 64)
    tl.store(out + o_row, o_row, mask=o_row < num)


def test_a_launch_shows_its_constexprs_its_ranges_and_its_grid() -> None:
    with noting_launches() as launches:
        _count[(3,)](torch.zeros(100, dtype=torch.int32), 77, TILE=32)
    assert launches.take() == {3: 1, 1: 1, 64: 1, 32: 1}
    assert launches.programs == 3
    assert not launches.take()


def test_a_launch_of_too_many_programs_runs_none() -> None:
    out = torch.zeros(100, dtype=torch.int32)
    with noting_launches() as launches:
        _count[(1,)](out, 100, TILE=32)
        launches.most_programs = 2
        out.zero_()
        with pytest.raises(TooMuchWork, match="3 programs"):
            _count[(3,)](out, 100, TILE=32)
        _count[(2,)](out, 0, TILE=32)
    assert not out.any()


def test_nothing_is_noted_once_the_context_is_closed() -> None:
    with noting_launches() as launches:
        pass
    _count[(3,)](torch.zeros(100, dtype=torch.int32), 77, TILE=32)
    assert not launches.take()


def test_a_tensor_of_one_element_is_a_size_of_a_grid_in_any_order() -> None:
    out = torch.zeros(100, dtype=torch.int32)
    with watching(order_seed=1) as watch:
        _count[(torch.tensor(3),)](out, 77, TILE=32)
    assert out[:77].tolist() == list(range(77)) and watch.most_programs == 3
