"""fp32 numbers to e4m3fn and back by integer arithmetic, which the interpreter and all GPUs do alike."""

import triton
import triton.language as tl

MAX_BITS = tl.constexpr(0x43E00000)  # of 448.0
MIN_NORMAL_BITS = tl.constexpr(0x3C800000)  # of 2^-6
# From 2^14 up, fp32 numbers are 2^-9 apart, which is the step of fp8 below 2^-6.
STEP_2_9 = tl.constexpr(16384.0)
STEP_2_9_BITS = tl.constexpr(0x46800000)


@triton.jit
def e4m3_bytes(bits: tl.tensor) -> tl.tensor:
    """Return the e4m3fn byte, to nearest even, of fp32 numbers given as int32 bits; beyond 448 it is 448."""
    magnitude = tl.minimum(bits & 0x7FFFFFFF, MAX_BITS)
    # From 2^-6 on: drop 20 bits, to nearest even, and move the exponent's bias from 127 to 7.
    normal = ((magnitude + 0x7FFFF + ((magnitude >> 20) & 1)) >> 20) - 960
    steps = (magnitude.to(tl.float32, bitcast=True) + STEP_2_9).to(tl.int32, bitcast=True) - STEP_2_9_BITS
    return (tl.where(magnitude >= MIN_NORMAL_BITS, normal, steps) | ((bits >> 24) & 0x80)).to(tl.uint8)


@triton.jit
def e4m3_numbers(bytes_: tl.tensor) -> tl.tensor:
    """Return the fp32 numbers of e4m3fn bytes; none of them is NaN."""
    bits = bytes_.to(tl.int32)
    magnitude = bits & 0x7F
    # Below 2^-6 numbers are 2^-9 apart. From there on the exponent's bias moves from 7 to 127.
    steps = (magnitude.to(tl.float32) * 0.001953125).to(tl.int32, bitcast=True)
    number = tl.where(magnitude < 8, steps, (magnitude << 20) + MIN_NORMAL_BITS - (8 << 20))
    return (number | ((bits & 0x80) << 24)).to(tl.float32, bitcast=True)
