"""fp32 and bf16 numbers to e4m3fn and back.

With HAS_FP8 the GPU converts them; else integer arithmetic does, which the interpreter and all GPUs do alike.
"""

import torch
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


@triton.jit
def e4m3_of(x: tl.tensor, HAS_FP8: tl.constexpr) -> tl.tensor:
    """Return the e4m3fn byte, to nearest even, of fp32 numbers that are not NaN; beyond 448 it is 448."""
    if HAS_FP8:
        return x.to(tl.float8e4nv).to(tl.uint8, bitcast=True)
    else:
        return e4m3_bytes(x.to(tl.int32, bitcast=True))


@triton.jit
def fp32_of_bf16(bits: tl.tensor) -> tl.tensor:
    """Return the fp32 numbers of bf16 numbers given as int16 bits: their upper halves."""
    return (bits.to(tl.int32) << 16).to(tl.float32, bitcast=True)


@triton.jit
def _quotients(x: tl.tensor, scale: tl.tensor) -> tl.tensor:
    """Return x / scale, to nearest from 2^-12 to 448 and beyond 448 on either side of the quotient.

    Fused multiply-adds correct the product with the reciprocal, by less than the quotient's last bit.
    """
    # Both are lifted to a scale of about 1, so that no remainder is subnormal. The reciprocal is negative, so
    # that zeros keep their sign.
    exponent = (scale.to(tl.int32, bitcast=True) >> 23) & 255
    lift = (tl.minimum(tl.maximum(254 - exponent, 1), 254) << 23).to(tl.float32, bitcast=True)
    divisor = tl.minimum(tl.abs(scale * lift), 2.0**100)
    reciprocal = tl.div_rn(tl.full((), -1.0, tl.float32), divisor)
    x = x * tl.where(scale < 0, lift, -lift)
    # An infinite quotient would leave a remainder that is NaN.
    quotient = tl.minimum(tl.maximum(x * reciprocal, -512.0), 512.0)
    remainder = tl.fma(quotient, tl.zeros_like(x) + divisor, x)
    return tl.fma(remainder, tl.zeros_like(x) + reciprocal, quotient)


@triton.jit
def bf16_to_e4m3(bits: tl.tensor, scale: tl.tensor, HAS_FP8: tl.constexpr) -> tl.tensor:
    """Return the e4m3fn bytes of x / scale, in fp32, for finite bf16 numbers x given as int16 bits."""
    x = fp32_of_bf16(bits)
    if HAS_FP8:
        return e4m3_of(_quotients(x, scale), HAS_FP8)
    else:
        return e4m3_of(tl.div_rn(x, tl.zeros_like(x) + scale), HAS_FP8)


@triton.jit
def e4m3_to_bf16(bytes_: tl.tensor, scale: tl.tensor, HAS_FP8: tl.constexpr) -> tl.tensor:
    """Return the bf16 numbers, as int16 bits to nearest even, of e4m3fn bytes times scale; none is NaN."""
    if HAS_FP8:
        product = bytes_.to(tl.float8e4nv, bitcast=True).to(tl.float32) * scale
        return product.to(tl.bfloat16).to(tl.int16, bitcast=True)
    else:
        # A bf16 number is the upper half of an fp32 number: drop 16 bits, to nearest even.
        bits = (e4m3_numbers(bytes_) * scale).to(tl.int32, bitcast=True)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).to(tl.int16)


def has_fp8(device: torch.device) -> bool:
    """Return whether the device rounds fp32 to e4m3fn; the interpreter does not round to nearest."""
    is_nvidia = device.type == "cuda" and torch.version.cuda is not None
    return (
        is_nvidia
        and not triton.knobs.runtime.interpret
        and torch.cuda.get_device_capability(device) >= (8, 9)
    )
