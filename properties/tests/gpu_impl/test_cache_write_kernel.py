"""New rows in the cache: every bf16 number as fp8, rows that are not written, strides, refusals."""

import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

from cumae import gpu_impl
from cumae.properties.running.device import prepare

DEVICE = prepare("auto")
pytestmark = pytest.mark.usefixtures("watched")
FINITE = np.array([bits for bits in range(65536) if bits & 0x7F80 != 0x7F80], np.uint16)
# bf16 numbers for which a product with 1 / scale, or a quotient not rounded to fp32, gives other bytes.
TELLS_PRODUCTS, TELLS_EXACT = 0x3FC4, 0x3F82
# The largest, 448, two beside 1.75, numbers whose scale is near or at 2^-126, and subnormals.
LARGEST = [TELLS_PRODUCTS, TELLS_EXACT, 0x7F7F, 0x43E0, 0x3FE1, 0x3FDF, 0x0480, 0x0460, 0x0100, 0x0041, 1, 0]


def values_of(bits: np.ndarray) -> np.ndarray:
    """Return bf16 numbers, exactly, from their bits."""
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def fp8_values() -> np.ndarray:
    """Return what the bytes 0 .. 126 say as e4m3fn."""
    return np.array(
        [(b & 7) * 2.0**-9 if b < 8 else (8 + (b & 7)) * 2.0 ** ((b >> 3) - 10) for b in range(127)]
    )


def nearest_bytes(numbers: np.ndarray) -> np.ndarray:
    """Return the byte nearest each number, of two as near the even one."""
    bytes_ = np.empty(len(numbers), np.uint8)
    for first in range(0, len(numbers), 4096):
        part = numbers[first : first + 4096]
        distance = np.abs(np.abs(part)[:, None] - fp8_values()[None, :])
        is_nearest = distance == distance.min(axis=1, keepdims=True)
        low = is_nearest.argmax(axis=1)
        byte = np.where((is_nearest.sum(axis=1) == 2) & (low % 2 == 1), low + 1, low)
        bytes_[first : first + 4096] = byte + 128 * np.signbit(part)
    return bytes_


def scale_of(amax: float, power_of_two: bool) -> float:
    """Return the scale of a tile whose largest magnitude is `amax`."""
    if power_of_two:
        least = max(Fraction(amax) / 448, Fraction(1, 10000))
        return next(2.0**k for k in range(-20, 128) if Fraction(2.0**k) >= least)
    return max(float(np.float32(amax / 448)), 2.0**-126)


def quotients(x: np.ndarray, scale: float | np.ndarray) -> np.ndarray:
    """Return x / scale as fp32 rounds it, at most 448 in magnitude. Twice rounded is once rounded here."""
    return np.clip((x / scale).astype(np.float32).astype(np.float64), -448, 448)


def fp8_rows(rows: np.ndarray, power_of_two: bool) -> np.ndarray:
    """Return rows [T, 576] of bf16 bits as the 656 bytes of each."""
    found = np.empty((len(rows), 656), np.uint8)
    tiles = rows[:, :512].reshape(-1, 128)
    amax = np.abs(values_of(tiles)).max(axis=1)
    scales = np.array([scale_of(a, power_of_two) for a in amax.tolist()]).reshape(-1, 1)
    numbers = quotients(values_of(tiles), scales)
    found[:, :512] = nearest_bytes(numbers.reshape(-1)).reshape(-1, 512)
    found[:, 512:528] = scales.astype("<f4").reshape(-1, 4).view(np.uint8)
    found[:, 528:] = np.ascontiguousarray(rows[:, 512:]).view(np.uint8)
    return found


def exhaustive_rows(largest: int) -> np.ndarray:
    """Return rows whose tiles hold `largest` and, together, every bf16 number of no larger magnitude."""
    within = FINITE[(FINITE & 0x7FFF) <= largest]
    tiles = np.full((-(-len(within) // 127), 128), largest, np.uint16)
    for i_tile, tile in enumerate(tiles):
        part = within[127 * i_tile : 127 * (i_tile + 1)]
        tile[i_tile % 2 : i_tile % 2 + len(part)] = part
    tiles = np.concatenate([tiles, np.zeros((-len(tiles) % 4, 128), np.uint16)])
    ropes = np.arange(len(tiles) // 4 * 64, dtype=np.uint16).reshape(-1, 64) * 1023
    return np.concatenate([tiles.reshape(-1, 512), ropes], axis=1)


def bf16(rows: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(rows.view(np.int16)).view(torch.bfloat16).to(DEVICE)


def slots_of(*slots: int) -> torch.Tensor:
    return torch.tensor(slots, dtype=torch.int64, device=DEVICE)


@pytest.mark.parametrize("power_of_two", [False, True])
def test_every_bf16_number_is_quantised_to_the_bit(power_of_two: bool) -> None:
    rows = np.concatenate([exhaustive_rows(largest) for largest in LARGEST])
    cache = torch.full((len(rows), 1, 656), 0xAA, dtype=torch.uint8, device=DEVICE)
    slots = np.random.default_rng(0).permutation(len(rows))
    gpu_impl.write_cache(bf16(rows), slots_of(*slots), cache, power_of_two)
    expected = np.empty((len(rows), 656), np.uint8)
    expected[slots] = fp8_rows(rows, power_of_two)
    np.testing.assert_array_equal(cache.cpu().numpy()[:, 0], expected)


def test_a_product_and_an_exact_quotient_are_other_answers() -> None:
    for largest in (TELLS_PRODUCTS, TELLS_EXACT):
        x = values_of(exhaustive_rows(largest)[:, :512]).reshape(-1)
        scale = scale_of(x.max(), False)
        product = (x.astype(np.float32) * (np.float32(1) / np.float32(scale))).astype(np.float64)
        wrong = product if largest == TELLS_PRODUCTS else x / scale
        expected = nearest_bytes(quotients(x, scale))
        assert (nearest_bytes(np.clip(wrong, -448, 448)) != expected).any()


def test_a_product_corrected_by_multiply_adds_is_the_quotient() -> None:
    """For all mantissas of x and of a tile's largest: a GPU with fp8 takes this way, the interpreter not."""
    mantissas = np.arange(128, 256).astype(np.float32)

    def multiply_add(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        exact = a.astype(np.longdouble) * b + c
        return np.asarray(exact, np.float32)

    for factor in (*(2.0**-shift for shift in range(22)), -1.0, 0.0, -0.0):
        x, scale = np.broadcast_arrays(mantissas * np.float32(factor), (mantissas / 448)[:, None])
        reciprocal = -1 / scale
        quotient = -x * reciprocal
        remainder = multiply_add(quotient, scale, -x)
        found = multiply_add(remainder, reciprocal, quotient)
        np.testing.assert_array_equal(found.view(np.int32), (x / scale).view(np.int32))


def test_the_nearest_byte_is_the_even_one_of_two() -> None:
    numbers = np.array([0.0, -0.0, 2.0**-10, -3 * 2.0**-10, 17.0, 19.0, 31.1, 432.0, 448.0])
    assert nearest_bytes(numbers).tolist() == [0, 128, 0, 130, 0x58, 0x5A, 0x60, 0x7E, 0x7E]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_plain_rows_are_copied_bit_for_bit_and_nothing_else_changes(dtype: torch.dtype) -> None:
    word = torch.int32 if dtype == torch.float32 else torch.int16
    width, limit = 521, 2**31 - 1 if dtype == torch.float32 else 2**15 - 1
    generator = torch.Generator().manual_seed(0)
    wide = torch.randint(-limit, limit, (11, width + 3), dtype=word, generator=generator).to(DEVICE)
    store = torch.randint(-limit, limit, (7, 5, width + 5), dtype=word, generator=generator).to(DEVICE)
    cache = store.view(dtype)[:, 1:4, :width]
    slots = [20, 3, -1, 0, -7, 21, 2**40, 10, 11]
    expected = store.clone()
    for i_row, slot in enumerate(slots):
        if 0 <= slot < 21:
            expected[slot // 3, 1 + slot % 3, :width] = wide[i_row, :width]
    gpu_impl.write_cache(wide.view(dtype)[:, :width], slots_of(*slots), cache, False)
    assert torch.equal(store, expected)


def test_fp8_rows_are_written_between_bytes_that_stay() -> None:
    rows = np.random.default_rng(1).choice(FINITE, (5, 700))
    store = torch.full((4, 3, 664), 0x55, dtype=torch.uint8, device=DEVICE)
    cache = store[:, :2, 4:660].transpose(0, 1)
    expected = store.cpu().numpy().copy()
    expected[[3, 0], [1, 0], 4:660] = fp8_rows(rows[[0, 2], :576].copy(), False)
    gpu_impl.write_cache(bf16(rows)[:, :576], slots_of(7, -1, 0, 8), cache, False)
    np.testing.assert_array_equal(store.cpu().numpy(), expected)


@pytest.mark.parametrize("shape", [(0, 4, 6), (3, 0, 6), (3, 4, 6), (3, 4, 0)])
def test_no_row_no_slot_and_no_block_are_no_work(shape: tuple[int, int, int]) -> None:
    cache = torch.ones(shape, device=DEVICE)
    for num_rows, slots in ((0, [0, 1]), (2, []), (2, [-1, 12])):
        gpu_impl.write_cache(torch.zeros(num_rows, shape[2], device=DEVICE), slots_of(*slots), cache, False)
    assert bool((cache == 1).all())


def plain() -> dict[str, Any]:
    return {
        "new_latents": torch.zeros(2, 6, device=DEVICE),
        "slot_mapping": slots_of(0, 5),
        "cache": torch.ones(3, 4, 6, device=DEVICE),
        "power_of_two_scales": False,
    }


def fp8() -> dict[str, Any]:
    return {
        "new_latents": torch.zeros(2, 576, dtype=torch.bfloat16, device=DEVICE),
        "slot_mapping": slots_of(0, 5),
        "cache": torch.ones(3, 4, 656, dtype=torch.uint8, device=DEVICE),
        "power_of_two_scales": True,
    }


def fp8_bytes(*shape: int) -> torch.Tensor:
    return torch.ones(shape, dtype=torch.uint8, device=DEVICE)


@pytest.mark.parametrize(
    ("good", "field", "value", "says"),
    [
        (plain, "new_latents", torch.zeros(2, 6, dtype=torch.float16, device=DEVICE), "new_latents.dtype"),
        (plain, "new_latents", torch.zeros(2, 5, device=DEVICE), "new_latents.shape = (2, 5)"),
        (plain, "new_latents", torch.zeros(2, 12, device=DEVICE)[:, ::2], "new_latents.stride() = (12, 2)"),
        (plain, "slot_mapping", slots_of(0, 5).int(), "slot_mapping.dtype = torch.int32"),
        (plain, "slot_mapping", slots_of(0, 5, 1, 1)[::2], "slot_mapping.stride() = (2,)"),
        (plain, "cache", torch.ones(12, 6, device=DEVICE), "cache.shape = (12, 6)"),
        (plain, "cache", torch.ones(3, 4, 6, device=DEVICE).double(), "cache.dtype = torch.float64"),
        (plain, "cache", torch.ones(3, 4, 12, device=DEVICE)[:, :, ::2], "cache.stride() = (48, 12, 2)"),
        (plain, "cache", torch.ones(4, 6, device=DEVICE).expand(3, 4, 6), "cache.stride() = (0, 6, 1)"),
        (plain, "power_of_two_scales", True, "power_of_two_scales = True"),
        (plain, "cache", [[[1.0] * 6]], "cache = [[[1.0, 1.0, 1.0, 1.0, 1.0, 1.0]]]"),
        (fp8, "new_latents", torch.zeros(2, 576, device=DEVICE), "new_latents.dtype = torch.float32"),
        (fp8, "new_latents", torch.zeros(2, 512, dtype=torch.bfloat16, device=DEVICE), "new_latents.shape"),
        (fp8, "cache", fp8_bytes(3, 4, 576), "cache.shape = (3, 4, 576)"),
        (fp8, "cache", fp8_bytes(3, 4, 657)[:, :, :656], "cache.stride() = (2628, 657, 1)"),
        (fp8, "cache", fp8_bytes(3, 4, 660)[:, :, 1:657], "cache.data_ptr()"),
        (fp8, "power_of_two_scales", 1, "power_of_two_scales = 1"),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(
    good: Any, field: str, value: Any, says: str
) -> None:
    gpu_impl.write_cache(**good())
    arguments = good() | {field: value}
    before = arguments["cache"].clone() if isinstance(arguments["cache"], torch.Tensor) else None
    with pytest.raises(ValueError, match=rf"^{re.escape(says)}.*, must "):
        gpu_impl.write_cache(**arguments)
    assert before is None or torch.equal(arguments["cache"], before)
