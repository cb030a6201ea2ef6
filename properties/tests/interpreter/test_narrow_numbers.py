"""bf16 and fp8 numbers, `min` and `max` of blocks, and reductions: as compiled, also on a GPU."""

from contextlib import nullcontext
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from cumae.properties.interpreter.hooks import watching
from cumae.properties.running.device import prepare

DEVICE = prepare("auto")
BF16, FP32, INT32 = torch.bfloat16, torch.float32, torch.int32


@triton.jit
def _plus(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    return x + y


@triton.jit
def _calculate(
    a_ptr: tl.tensor, b_ptr: tl.tensor, out_ptr: tl.tensor, N: tl.constexpr, KIND: tl.constexpr
) -> None:
    at = tl.arange(0, N)
    a = tl.load(a_ptr + at)
    b = tl.load(b_ptr + at)
    if KIND == "sum":
        found = a + b
    elif KIND == "difference":
        found = a - 3
    elif KIND == "product":
        found = a * b
    elif KIND == "negated":
        found = -a
    elif KIND == "less":
        found = a < b
    elif KIND == "chosen":
        found = tl.where(a < b, a, b)
    elif KIND == "lesser":
        found = min(a, b)
    elif KIND == "greater":
        found = max(a, 2)
    elif KIND == "highest":
        found = tl.max(a, axis=0) + at * 0
    elif KIND == "place":
        found = tl.argmax(a, axis=0) + at * 0
    elif KIND == "inverted":
        found = ~a
    elif KIND == "sums":
        found = tl.associative_scan(a, -1, _plus)
    elif KIND == "sums_of_rows":
        found = tl.reduce(tl.reshape(a, [N // 4, 4]), -1, _plus)[:, None] + tl.zeros([N // 4, 4], a.dtype)
        found = tl.reshape(found, [N])
    else:
        found = a
    tl.store(out_ptr + at, found.to(out_ptr.dtype.element_ty))


NUMBERS = [0, 1, -1, 2.5, 3.140625, -300, 1.0078125, 0.1, 448, 17, -0.0078125, 1e-4, 65280, 5, 2, -2]
OTHERS = [1, 0.00390625, -1, 2.5, 100, 300, 1, 0.2, -8, 31, 1, 1, 256, 4, 3, -3]


def launch(kernel: Any, *arguments: Any, **constants: Any) -> None:
    with nullcontext() if DEVICE == "cuda" else watching():
        kernel[(1,)](*arguments, **constants)


def result(kind: str, a: torch.Tensor, b: torch.Tensor, dtype: torch.dtype) -> list[float]:
    out = torch.full((len(a),), 77, device=DEVICE).to(dtype)
    launch(_calculate, a.to(DEVICE), b.to(DEVICE), out, N=len(a), KIND=kind)
    return list(out.cpu().float().tolist())


@pytest.mark.parametrize("dtype", [BF16, torch.float16, FP32])
@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("sum", lambda a, b: a + b),
        ("difference", lambda a, b: a - 3),
        ("product", lambda a, b: a * b),
        ("negated", lambda a, b: -a),
        ("less", lambda a, b: a < b),
        ("chosen", lambda a, b: torch.where(a < b, a, b)),
        ("lesser", torch.minimum),
        ("greater", lambda a, b: torch.clamp(a, min=2)),
        ("highest", lambda a, b: a.max().expand(16)),
        ("place", lambda a, b: a.argmax().expand(16)),
    ],
)
def test_blocks_are_calculated_by_number(kind: str, expected: Any, dtype: torch.dtype) -> None:
    a, b = (torch.tensor(numbers, dtype=FP32).to(dtype) for numbers in (NUMBERS, OTHERS))
    wanted = expected(a, b)
    assert result(kind, a, b, dtype) == wanted.to(dtype).float().tolist()


@pytest.mark.parametrize(
    ("kind", "dtype", "expected"),
    [
        ("sum", torch.bool, [0, 1, 1, 0]),
        ("negated", torch.bool, [0, 0, 1, 1]),
        ("sums", torch.bool, [0, 0, 1, 0]),
        ("inverted", torch.bool, [1, 1, 0, 0]),
        ("inverted", torch.uint8, [255, 255, 254, 254]),
    ],
)
def test_conditions_wrap_and_unsigned_numbers_invert(
    kind: str, dtype: torch.dtype, expected: list[int]
) -> None:
    a, b = (torch.tensor(bits * 4).to(dtype) for bits in ([0, 0, 1, 1], [0, 1, 0, 1]))
    assert result(kind, a, b, dtype)[:4] == expected


@pytest.mark.parametrize("dtype", [BF16, INT32])
@pytest.mark.parametrize("kind", ["sums", "sums_of_rows"])
def test_the_last_axis_may_count_from_the_end(kind: str, dtype: torch.dtype) -> None:
    a = torch.arange(16).to(dtype)
    rows = a.float().reshape(4, 4)
    wanted = a.float().cumsum(0) if kind == "sums" else rows.sum(1, keepdim=True).expand(4, 4).reshape(16)
    assert result(kind, a, a, dtype) == wanted.tolist()


@pytest.mark.parametrize("made", [INT32, torch.int64, torch.bool, FP32, torch.float16])
def test_numbers_become_the_nearest_bf16(made: torch.dtype) -> None:
    numbers = [0, 1, 0, 1] * 4 if made is torch.bool else [0, 1, 2, 3, 257, 259, 1000, 4095, *NUMBERS[:8]]
    a = torch.tensor(numbers, dtype=FP32).to(made)
    assert result("same", a, a, BF16) == a.to(BF16).float().tolist()


@pytest.mark.skipif(DEVICE == "cuda" and torch.cuda.get_device_capability() < (8, 9), reason="needs fp8")
@pytest.mark.parametrize("made", [FP32, BF16, torch.float16])
@pytest.mark.parametrize(("fp8", "most"), [(torch.float8_e4m3fn, 448.0), (torch.float8_e5m2, 57344.0)])
def test_numbers_become_the_nearest_fp8_or_the_largest(
    fp8: torch.dtype, most: float, made: torch.dtype
) -> None:
    numbers = [31.1, 17.0, 15.99, 1.0625, 1.1875, 0.001953125, 0.0029, 460.0, 470.0, -1000.0, 60000.0, 0.0156]
    a = torch.tensor([*numbers, -0.0, 447.0, 3e-6, 240.0], dtype=FP32).to(made)
    assert result("same", a, a, fp8) == a.float().clamp(-most, most).to(fp8).float().tolist()


@pytest.mark.skipif(DEVICE == "cuda" and torch.cuda.get_device_capability() < (8, 9), reason="needs fp8")
@pytest.mark.parametrize("fp8", [torch.float8_e4m3fn, torch.float8_e5m2])
@pytest.mark.parametrize("made", [FP32, BF16, torch.float16])
def test_every_finite_fp8_number_is_read(fp8: torch.dtype, made: torch.dtype) -> None:
    a = torch.arange(256, dtype=torch.uint8).view(fp8)
    wanted = a.float()
    found = torch.tensor(result("same", a, a, made))
    finite = wanted.isfinite()
    assert found[finite].tolist() == wanted[finite].tolist()


@triton.jit
def _lesser_times(wide_ptr: tl.tensor, narrow: tl.tensor, out_ptr: tl.tensor) -> None:
    tl.store(out_ptr, min(narrow, tl.load(wide_ptr)) * 2**30)


def test_the_lesser_of_two_scalars_has_the_type_of_both() -> None:
    out, wide = torch.zeros(1, dtype=torch.int64, device=DEVICE), torch.tensor([2**40], device=DEVICE)
    launch(_lesser_times, wide, 3, out)
    assert int(out) == 3 * 2**30


@triton.jit
def _extremes(a_ptr: tl.tensor, out_ptr: tl.tensor, N: tl.constexpr) -> None:
    at = tl.arange(0, N)
    a = tl.load(a_ptr + at)
    two = tl.full((N,), 2, a.dtype)
    tl.store(out_ptr + at, tl.maximum(a, two))
    tl.store(out_ptr + N + at, tl.minimum(two, a))
    tl.store(out_ptr + 2 * N + at, tl.clamp(a, tl.full((N,), 0, a.dtype), two))


@pytest.mark.parametrize("dtype", [FP32, torch.float16, BF16])
def test_nan_is_neither_the_lesser_nor_the_greater_of_two(dtype: torch.dtype) -> None:
    a = torch.tensor([float("nan"), 3, -1, 1]).to(DEVICE, dtype)
    out = torch.full((12,), -7, dtype=dtype, device=DEVICE)
    launch(_extremes, a, out, N=4)
    found = out.tolist()
    assert found[:8] == [2, 3, 2, 2, 2, 2, -1, 1]
    assert found[9:] == [2, 0, 1]
    assert found[8] in (0, 2)


@triton.jit
def _places(a_ptr: tl.tensor, out_ptr: tl.tensor, N: tl.constexpr) -> None:
    rows = tl.arange(0, 2)
    a = tl.load(a_ptr + rows[:, None] * N + tl.arange(0, N)[None, :])
    tl.store(out_ptr + rows, tl.argmax(a, axis=1))
    tl.store(out_ptr + 2 + rows, tl.argmin(a, axis=1))
    tl.store(out_ptr + 4 + rows, tl.max(a, axis=1).to(tl.int32))
    tl.store(out_ptr + 6 + rows, tl.argmax(a, axis=1, tie_break_left=False))


@pytest.mark.parametrize("dtype", [FP32, BF16])
def test_a_row_of_nan_has_some_place_and_others_their_own(dtype: torch.dtype) -> None:
    a = torch.tensor([[float("nan")] * 8, [1, 5, 3, 5, 0, 2, 0, 4]]).to(DEVICE, dtype)
    out = torch.full((8,), -7, dtype=torch.int32, device=DEVICE)
    launch(_places, a, out, N=8)
    found = out.tolist()
    assert (found[1], found[3], found[5]) == (1, 4, 5)
    assert found[7] in (1, 3)
    assert all(0 <= place < 8 for place in (found[0], found[2], found[6]))
    if DEVICE == "cpu":
        assert found[7] == 3  # so that code which takes it for the first is found
