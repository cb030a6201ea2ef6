"""Integer arguments that are 1 are constants of a kernel, as where it is compiled."""

from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from cumae.properties.interpreter.hooks import watching
from cumae.properties.running.device import prepare

if prepare("auto") == "cuda":
    pytest.skip("nothing is interpreted where there is a GPU", allow_module_level=True)


@triton.jit
def _widened(out: Any, count: Any) -> None:
    tl.store(out, count.to(tl.int64))


@triton.jit(do_not_specialize=["count"])
def _left_by_name(out: Any, count: Any) -> None:
    tl.store(out, count.to(tl.int64))


@triton.jit(do_not_specialize=[1])
def _left_by_number(out: Any, count: Any) -> None:
    tl.store(out, count.to(tl.int64))


@triton.jit
def _annotated(out: Any, count: "tl.int32") -> None:
    tl.store(out, count.to(tl.int64))


@triton.jit
def _by_default(out: Any, count: Any = 1) -> None:
    tl.store(out, count.to(tl.int64))


@triton.jit
def _assigned(out: Any, count: Any) -> None:
    held = count
    tl.store(out, held.to(tl.int64))


@triton.jit
def _added(out: Any, count: Any) -> None:
    count += 0
    tl.store(out, count.to(tl.int64))


@triton.jit
def _half(count: Any, number: Any) -> Any:
    return tl.cdiv(number, count + 1)


@triton.jit
def _used(out: Any, count: Any, BLOCK: tl.constexpr) -> None:
    o_all = tl.arange(0, BLOCK) * count
    for i in range(0, count):
        o_all += i * count
    total = _half(count, o_all) + tl.where(o_all >= count, count, 0) + min(o_all, count)
    tl.store(out + o_all, total, mask=o_all < BLOCK * count)


def stored(kernel: Any, *arguments: Any, **named: Any) -> list[int]:
    out = torch.full((8,), -7, dtype=torch.int64)
    with watching():
        kernel[(1,)](out, *arguments, **named)
    return out.tolist()


@pytest.mark.parametrize("kernel", [_widened, _by_default])
def test_a_constant_has_no_cast(kernel: Any) -> None:
    with pytest.raises(Exception, match="has no attribute 'to'"):
        stored(kernel) if kernel is _by_default else stored(kernel, 1)
    assert stored(kernel, 2)[0] == 2


def test_an_argument_by_name_is_one_too() -> None:
    with pytest.raises(Exception, match="has no attribute 'to'"):
        stored(_widened, count=1)


@pytest.mark.parametrize("kernel", [_left_by_name, _left_by_number, _annotated, _assigned, _added])
def test_an_argument_that_is_left_or_held_has_one(kernel: Any) -> None:
    assert stored(kernel, 1)[0] == 1


def test_a_constant_is_used_as_any_number() -> None:
    expected = [-(-i // 2) + (i >= 1) + min(i, 1) for i in range(8)]
    assert stored(_used, 1, BLOCK=8) == expected
