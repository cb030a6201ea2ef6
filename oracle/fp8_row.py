"""The 656 bytes of a latent row in fp8: 512 e4m3fn values, four fp32 scales, 64 unchanged bf16 values."""

import struct
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from math import copysign, inf, isfinite, nextafter

from cumae.oracle.model.rules import require

NUM_QUANTISED, NUM_KEPT, TILE = 512, 64, 128
LARGEST = 448.0


def _e4m3(code: int) -> float:
    """Return the number of a code with sign bit 0, four exponent bits and three mantissa bits."""
    exponent, mantissa = divmod(code, 8)
    if exponent == 0:
        return mantissa / 8 * 2.0**-6
    return (1 + mantissa / 8) * 2.0 ** (exponent - 7)


_MAGNITUDES = [_e4m3(code) for code in range(127)]  # 127 is NaN
# From the k-th of these on, a magnitude is nearer to code k + 1 than to code k; of two as near, the even one.
_MIDDLES = [(low + high) / 2 for low, high in pairwise(_MAGNITUDES)]
_STEPS = [middle if code % 2 else nextafter(middle, inf) for code, middle in enumerate(_MIDDLES)]


def nearest_fp32(value: float) -> float:
    """Return the nearest fp32 number; ties go to the even mantissa."""
    rounded: float = struct.unpack("<f", struct.pack("<f", value))[0]
    return rounded


def all_nearest_fp32(values: Sequence[float]) -> Sequence[float]:
    """Return ``nearest_fp32`` of each value, all at once."""
    packed = struct.pack(f"<{len(values)}f", *values)
    return struct.unpack(f"<{len(values)}f", packed)


@lru_cache(maxsize=2**16)
def bf16_value(bits: int) -> float:
    """Return the number that these 16 bits mean in bf16.

    >>> bf16_value(0x3F80), bf16_value(0xC060)
    (1.0, -3.5)
    """
    value: float = struct.unpack("<f", struct.pack("<I", bits << 16))[0]
    return value


def e4m3_value(code: int) -> float:
    """Return the number that a byte means in e4m3fn; 127 and 255 mean none.

    Raises ``ValueError`` for these two.

    >>> [e4m3_value(code) for code in (0, 1, 56, 0xFE)]
    [0.0, 0.001953125, 1.0, -448.0]
    """
    sign, magnitude = divmod(code, 128)
    require(magnitude < len(_MAGNITUDES), "code", code, "be a number of e4m3fn")
    return -_MAGNITUDES[magnitude] if sign else _MAGNITUDES[magnitude]


def bf16_bits(value: float) -> int:
    """Return the bits of the bf16 number nearest to an fp32 number; ties go to the even mantissa.

    >>> [hex(bf16_bits(value)) for value in (1.0, -3.5, 1.00390625, 1.01171875)]
    ['0x3f80', '0xc060', '0x3f80', '0x3f82']
    """
    bits: int = struct.unpack("<I", struct.pack("<f", value))[0]
    upper, lower = divmod(bits, 2**16)
    return upper + (lower > 2**15 or (lower == 2**15 and upper % 2 == 1))


def e4m3_code(value: float) -> int:
    """Return the byte of the e4m3fn number nearest to ``value``; ties go to the even mantissa.

    Values beyond ±448 become ±448.

    >>> [e4m3_code(value) for value in (0.0, 1.0, -1.0, 1.0625, 1.1875, 500.0, 2.0**-10)]
    [0, 56, 184, 56, 58, 126, 0]
    """
    code = bisect_right(_STEPS, abs(value))
    return code + 128 if copysign(1, value) < 0 else code


def scale_of(tile: Sequence[float], *, power_of_two: bool) -> float:
    """Return the fp32 scale by which the values of a tile are divided.

    >>> scale_of([-896.0, 3.0], power_of_two=False), scale_of([-900.0], power_of_two=True)
    (2.0, 4.0)
    """
    amax = max(abs(value) for value in tile)
    quotient = nearest_fp32(amax / LARGEST)
    if not power_of_two:
        return max(quotient, 2.0**-126)
    scale = 2.0**-126
    while scale < max(quotient, 1e-4):
        scale *= 2
    return scale


@lru_cache(maxsize=4096)
def fp8_row(latents: tuple[int, ...], power_of_two: bool = False) -> bytes:
    """Return the 656 bytes of a row of 576 bf16 values, which are given as bits.

    Tile t of 128 values has the fp32 scale s = max(amax / 448, 2^-126), or, with ``power_of_two``,
    2^ceil(log2(max(amax / 448, 1e-4))). It is stored little-endian at byte 512 + 4t. Byte j is the e4m3fn
    number nearest to clamp(x[j] / s, -448, 448), computed in fp32. The last 64 values are copied to byte 528
    and on.

    Raises ``ValueError`` unless there are 576 values of which the first 512 are finite.
    Source: vLLM's ``concat_and_cache_mla`` with ``fp8_ds_mla``.

    >>> one = 0x3F80
    >>> row = fp8_row((one,) * 576)
    >>> row[0], struct.unpack("<f", row[512:516])[0] == nearest_fp32(1 / 448), row[528:530].hex()
    (126, True, '803f')
    """
    count = NUM_QUANTISED + NUM_KEPT
    require(len(latents) == count, "latents: number", len(latents), f"be {count}")
    values = [bf16_value(bits) for bits in latents[:NUM_QUANTISED]]
    for j, value in enumerate(values):
        if not isfinite(value):
            require(False, f"latents[{j}]", value, "be finite")
    codes: list[int] = []
    scales: list[float] = []
    for first in range(0, NUM_QUANTISED, TILE):
        tile = values[first : first + TILE]
        scales.append(scale_of(tile, power_of_two=power_of_two))
        scale = scales[-1]
        codes += map(e4m3_code, all_nearest_fp32([value / scale for value in tile]))
    kept = struct.pack(f"<{NUM_KEPT}H", *latents[NUM_QUANTISED:])
    return bytes(codes) + struct.pack("<4f", *scales) + kept
