"""Products of fp32 blocks take tf32, and joined blocks have no order, as in compiled code."""

from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from cumae.properties.interpreter.hooks import watching
from cumae.properties.running.device import prepare

if prepare("auto") == "cuda":
    pytest.skip("nothing is interpreted where there is a GPU", allow_module_level=True)

SIZE = 16


@triton.jit
def _product(numbers: Any, out: Any, precision: tl.constexpr, BLOCK: tl.constexpr) -> None:
    o_all = tl.arange(0, BLOCK)
    at = o_all[:, None] * BLOCK + o_all[None, :]
    one = (o_all[:, None] == o_all[None, :]).to(tl.float32)
    tl.store(out + at, tl.dot(tl.load(numbers + at), one, input_precision=precision))


@triton.jit
def _joined(out: Any, BLOCK: tl.constexpr, can_reorder: tl.constexpr) -> None:
    o_all = tl.arange(0, BLOCK)
    both = tl.cat(o_all, o_all + BLOCK, can_reorder=can_reorder)
    tl.store(out + tl.arange(0, 2 * BLOCK), both)
    places = tl.cat(o_all, o_all + BLOCK, can_reorder=can_reorder)
    tl.store(out + 2 * BLOCK + places, both)


def product(number: float, precision: str | None) -> float:
    numbers, out = torch.full((SIZE, SIZE), number), torch.zeros(SIZE, SIZE)
    with watching():
        _product[(1,)](numbers, out, precision, BLOCK=SIZE)
    return float(out[3, 5])


@pytest.mark.parametrize("precision", [None, "tf32"])
def test_a_product_of_fp32_takes_tf32(precision: str | None) -> None:
    assert [product(number, precision) for number in (2047.0, 2049.0, 2051.0)] == [2047.0, 2048.0, 2050.0]


@pytest.mark.parametrize("precision", ["ieee", "tf32x3"])
def test_a_product_that_asks_for_more_is_exact(precision: str) -> None:
    assert product(2051.0, precision) == 2051.0


def test_joined_blocks_have_another_order_and_the_same_one_each_time() -> None:
    out = torch.zeros(4 * SIZE, dtype=torch.int32)
    with watching():
        _joined[(1,)](out, SIZE, True)
    stored, placed = out[: 2 * SIZE].tolist(), out[2 * SIZE :].tolist()
    assert stored != list(range(2 * SIZE)) and sorted(stored) == list(range(2 * SIZE))
    assert placed == list(range(2 * SIZE))
