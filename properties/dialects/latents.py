"""New latent rows, with finite values that are hard to quantise, and their fp8 rows."""

import numpy as np

from cumae.oracle import Case, Inputs, fp8_row
from cumae.properties.dialects.held import ByteArray, Rows, rows, seed_in_step
from cumae.properties.dialects.odd_rows import with_odd_rows

WIDTH, TILE, NUM_TILES = 576, 128, 4
_EXPONENT, _SIGN = 0x7F80, 0x8000
_LARGEST = 0x7F7F


def new_latents(inputs: Inputs) -> Rows:
    """Return the new bf16 rows [max_num_tokens, 576] for an fp8 cache; those of tokens are finite.

    Each tile is of one of seven kinds: similar magnitudes, all magnitudes, zeros only, subnormal, the largest
    bf16 numbers, halfway between fp8 numbers, and halfway except for the rounding of the scale.
    """
    case = inputs.case
    live = np.arange(case.batch.num_tokens, dtype=np.int64).reshape(-1, 1)
    shape, strides = (case.max_num_tokens, WIDTH), (WIDTH + case.layout.new_row_gap, 1)
    held = rows(shape, "bf16", strides, live, case.layout.garbage, seed_in_step(inputs, 3))
    bits = held.content.view(np.uint16)
    for row in range(len(live)):
        for tile in range(NUM_TILES):
            part = bits[row, tile * TILE : (tile + 1) * TILE]
            part[:] = hard_to_quantise(part, row * 5 + tile * 2)
    return with_odd_rows(held, live[:, 0], finite=True) if case.options.rows.odd_rows else held


def _of_one_size(bits: np.ndarray) -> np.ndarray:
    """Return numbers within a factor of 2^8 of a magnitude taken from the first one's bits."""
    middle = 16 + int(bits[0]) % 220
    return (bits & 0x807F) | (middle - 8 + (bits >> 7) % 16) << 7


def _of_all_sizes(bits: np.ndarray) -> np.ndarray:
    return np.where((bits & _EXPONENT) == _EXPONENT, bits & ~0x4000, bits)


def _zeros(bits: np.ndarray) -> np.ndarray:
    return bits & _SIGN


def _subnormal(bits: np.ndarray) -> np.ndarray:
    return bits & 0x807F


def _largest(bits: np.ndarray) -> np.ndarray:
    return np.where(bits % 3 == 0, (bits & _SIGN) | _LARGEST, _of_all_sizes(bits))


def _halfway(bits: np.ndarray) -> np.ndarray:
    """Return first 448 times a power of two, so that the scale is that power, then numbers with four bits."""
    middle = 24 + int(bits[0]) % 200
    halfway = (bits & 0x8078) | (middle - (bits >> 7) % 20) << 7
    halfway[0] = middle << 7 | 0x60
    return np.where((halfway & 0x7FFF) > (halfway[0] & 0x7FFF), halfway[0], halfway)


def _beside_halfway(bits: np.ndarray) -> np.ndarray:
    """Return first 248/128 times a power of two, then 3/64 of it times others, exactly 21/448.

    21 is halfway between fp8 numbers. The scale is rounded, and this is the only pair of bf16 mantissas for
    which x / scale and 448 x / amax give different bytes: it lies one bit above halfway.
    """
    middle = 24 + int(bits[0]) % 200
    found = (bits & _SIGN) | (middle - 1 - (bits >> 7) % 16) << 7 | 0x3A
    found[0] = middle << 7 | 0x78
    return found


_KINDS = (_of_one_size, _halfway, _of_all_sizes, _zeros, _subnormal, _largest, _beside_halfway)


def hard_to_quantise(bits: np.ndarray, number: int) -> np.ndarray:
    """Return finite bf16 numbers, as bits, that are made of random bits; ``number`` chooses their kind."""
    made: np.ndarray = _KINDS[number % len(_KINDS)](bits.astype(np.int64))
    return made


def as_cached(case: Case, content: ByteArray) -> ByteArray:
    """Return new rows as the cache holds them: unchanged, or as the oracle's fp8 rows of bf16 rows."""
    if case.options.rows.row_format != "fp8":
        return content
    power_of_two = case.options.rows.power_of_two_scales
    made = [fp8_row(tuple(row.view(np.uint16).tolist()), power_of_two) for row in content]
    return np.frombuffer(b"".join(made), dtype=np.uint8).reshape(-1, case.options.rows.row_bytes)
