"""Keys and values as bytes: fp8 with a given scale, fp8 and int8 with a scale of their own behind them."""

import struct
from collections.abc import Sequence
from functools import lru_cache

from cumae.oracle.fp8_row import all_nearest_fp32, bf16_bits, bf16_value, e4m3_code, e4m3_value, nearest_fp32
from cumae.oracle.model.heads import HeadFormat
from cumae.oracle.model.rules import require, require_choice

LARGEST = {"fp8_own": 448.0, "int8_own": 127.0}
INFINITY = 0x7F80
"""The bits of infinity in bf16; NaN has them too, and no finite number has all of them."""
LEAST_SCALE = nearest_fp32(1e-6)


def scaled_head(numbers: Sequence[int], head_format: HeadFormat, scale: float = 1.0) -> bytes:
    """Return the bytes of a key or value, whose numbers are given as the bits of bf16.

    ``fp8``: the e4m3fn number nearest to x / ``scale``, divided in fp32; beyond ±448 it is ±448. ``fp8_own``
    and ``int8_own``: s = max(amax / 448 or 127, 1e-6) in fp32, and y = x * (1 / s), rounded after each step.
    Then the e4m3fn number nearest to y, or for int8 the whole number nearest to y, halves away from 0 after
    y ± 0.5 is rounded; four bytes of s, little-endian, follow.

    Raises ``ValueError`` for another format and for numbers that are not finite. Sources: vLLM's
    ``reshape_and_cache_kernel_flash`` and ``_reshape_cache_per_token_head``, LMDeploy's ``fill_kv_cache``.

    >>> one, minus_two = 0x3F80, 0xC000
    >>> scaled_head([one, minus_two], "fp8", 0.5).hex()
    '40c8'
    >>> row = scaled_head([one, minus_two], "int8_own")
    >>> list(struct.unpack("<2b", row[:2])), struct.unpack("<f", row[2:])[0] == nearest_fp32(2 / 127)
    ([64, -127], True)
    """
    require_choice("head_format", head_format, ("fp8", *LARGEST))
    for i, bits in enumerate(numbers):
        if bits & INFINITY == INFINITY:
            require(False, f"numbers[{i}]", bf16_value(bits), "be finite")
    if head_format == "fp8":
        return bytes([_fp8_code(bits, scale) for bits in numbers])
    values = [bf16_value(bits) for bits in numbers]
    own = max(nearest_fp32(max(map(abs, values)) / LARGEST[head_format]), LEAST_SCALE)
    factor = nearest_fp32(1 / own)
    scaled = all_nearest_fp32([value * factor for value in values])
    codes = map(e4m3_code, scaled) if head_format == "fp8_own" else _int8(scaled)
    return bytes(codes) + struct.pack("<f", own)


def restored_number(code: int, scale: float) -> int:
    """Return the bits of the bf16 number that a byte of fp8 is read as.

    It is the e4m3fn number times the fp32 ``scale``, rounded to fp32 and then to bf16, ties to even. Raises
    ``ValueError`` for a byte that is no number. Source: vLLM's ``cp_mha_gather_cache``.

    >>> hex(restored_number(0xC8, 0.5)), bf16_value(restored_number(0xC8, 0.5))
    ('0xc000', -2.0)
    """
    return bf16_bits(nearest_fp32(e4m3_value(code) * scale))


@lru_cache(maxsize=2**18)
def _fp8_code(bits: int, scale: float) -> int:
    """Return the byte of a number; as a key, 0.0 would be the same as -0.0."""
    return e4m3_code(nearest_fp32(min(max(bf16_value(bits) / scale, -448.0), 448.0)))


def _int8(values: Sequence[float]) -> list[int]:
    """Return the byte of the whole number nearest to each value; it is within ±127."""
    moved = all_nearest_fp32([value + 0.5 if value >= 0 else value - 0.5 for value in values])
    return [int(value) % 256 for value in moved]
