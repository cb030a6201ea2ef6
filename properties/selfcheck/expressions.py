"""Expressions of two operands, of blocks and of scalars of many types, and kernels that calculate them.

Left out is what a compiler or a GPU may choose: the order of floating-point sums, approximate functions,
numbers that a type does not hold, selections among equals.
"""

from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np
import torch

N = 32
"""Numbers of a block; scalars are taken one after the other."""
DTYPES = {
    "int1": torch.bool,
    "int8": torch.int8,
    "int16": torch.int16,
    "int32": torch.int32,
    "int64": torch.int64,
    "uint8": torch.uint8,
    "uint32": torch.uint32,
    "uint64": torch.uint64,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "float8e4nv": torch.float8_e4m3fn,
    "float8e5": torch.float8_e5m2,
}
NAMES = (*DTYPES, "uint16", "float64")
INTEGERS, FLOATS = tuple(DTYPES)[:8], ("float16", "bfloat16", "float32")
MIXED = """
int32,int64 int64,int32 int8,int32 uint8,int32 int32,uint32 int32,int1 int1,int64 uint64,int64
bfloat16,float32 float16,bfloat16 int32,float32 bfloat16,int32
"""
OF_ALL = """
a + b; a - b; a * b; a < b; a <= b; a > b; a >= b; a == b; a != b; min(a, b); max(a, b); tl.minimum(a, b)
tl.maximum(a, b); tl.where(a < b, a, b); (a > 0) and (b > 0); (a > 0) or (b > 0); not (a > 0)
(0 <= a) & (a < b); a + 3; a * 3; 3 - a; -a; a + True; a + tl.constexpr(5); a == 1; (a > 0) * 2; (a > 0) - 1
tl.minimum(a, 5); min(a, 5); max(a, 2); tl.where(a > 0, a, -1); tl.where(a > 0, 1, 0)
"""
OF_INTEGERS = """
a // c; a % c; a & b; a | b; a ^ b; a << d; a >> d; tl.cdiv(a, c); a // 16; a % 16; a // -3; a % -3; -7 // c
7 % c; 1 << d; ~a; a * 1099511627776; a + 4294967296; a & 255; (a // 16) * 16 + b % 16; (a + 15) // 16 * 16
a.to(tl.int64) * 4294967297
"""
OF_BLOCKS = """
tl.max(a); tl.min(a); tl.sort(a); tl.argmax(a, axis=0); tl.argmin(a, axis=0)
tl.max(a, 0, return_indices=True)[1]; tl.sum(a > 0); tl.sum((a > 0).to(tl.int32))
tl.cumsum((a > 0).to(tl.int32), 0); tl.gather(a, e, 0); tl.interleave(a, b); tl.ravel(tl.join(a, b))
tl.split(tl.reshape(a, [N // 2, 2]))[1]; tl.trans(tl.reshape(a, [4, N // 4]))
tl.max(tl.reshape(a, [4, N // 4]), axis=-1); tl.argmax(tl.reshape(a, [4, N // 4]), axis=1)
tl.broadcast_to(s, [N]); tl.sort(tl.reshape(a, [4, N // 4])); tl.where(s > 0, a, b)
tl.load(b_ptr + at, mask=a > 0, other=0)
"""
OF_INTEGER_BLOCKS = """
tl.sum(a); tl.sum(a, axis=0); tl.sum(a, dtype=tl.int64); tl.sum(tl.reshape(a, [4, N // 4]), axis=-1)
tl.xor_sum(a); tl.cumsum(a, 0); tl.cumsum(a, -1); tl.cumsum(a, 0, reverse=True)
tl.associative_scan(a, -1, plus); tl.associative_scan(a, 0, most); tl.reduce(a, 0, most)
tl.reduce(tl.reshape(a, [4, N // 4]), -1, plus); tl.atomic_add(b_ptr + at, a); tl.atomic_max(b_ptr + at, a)
tl.atomic_xchg(b_ptr + at, a); tl.atomic_cas(b_ptr + at, b, a); tl.histogram(a.to(tl.int32) & 15, 16)
"""
HEAD = """import triton
import triton.language as tl


@triton.jit
def most(x, y):
    return tl.maximum(x, y)


@triton.jit
def plus(x, y):
    return x + y
"""
KERNEL = """

@triton.jit
def {name}(a_ptr, b_ptr, c_ptr, d_ptr, e_ptr, out, code, N: tl.constexpr):
    at = {at}
    a = tl.load(a_ptr + at)
    b = tl.load(b_ptr + at)
    c = tl.load(c_ptr + at)
    d = tl.load(d_ptr + at)
    e = tl.load(e_ptr + at)
    s = tl.load(a_ptr + 5)
    found = {expression}
    of: tl.constexpr = found.dtype
{codes}
    if of.is_floating():
        found = found.to(tl.core.get_int_dtype(of.primitive_bitwidth, True), bitcast=True)
    found = found.to(tl.int64)
    if found.numel == 1:
        tl.store(out + at, found + at * 0)
    else:
        tl.store(out + tl.arange(0, found.numel), tl.reshape(found, [found.numel]))
"""


class Expression(NamedTuple):
    """An expression, whether its operands are blocks, and their types."""

    text: str
    of_blocks: bool
    a: str
    b: str

    def told(self) -> str:
        """Return the expression with the types of its operands."""
        types = self.a if self.a == self.b else f"{self.a} and {self.b}"
        return f"{self.text} of {types}{'' if self.of_blocks else ', scalars'}"


def texts(table: str) -> list[str]:
    """Return the expressions of a table."""
    return [one.strip() for line in table.strip().splitlines() for one in line.split(";")]


@cache
def expressions() -> list[Expression]:
    """Return every expression with every kind of operands."""
    same = [(name, name) for name in (*INTEGERS, *FLOATS)]
    found: list[Expression] = []
    for a, b in same + [tuple(pair.split(",")) for pair in MIXED.split()]:
        are_integers = {a, b} <= set(INTEGERS) - {"int1"}
        some = texts(OF_ALL) + (texts(OF_INTEGERS) if are_integers else [])
        found += [Expression(text, of_blocks, a, b) for text in some for of_blocks in (True, False)]
    for name, _ in same:
        some = texts(OF_BLOCKS) + (texts(OF_INTEGER_BLOCKS) if name in INTEGERS else [])
        found += [Expression(text, True, name, name) for text in some]
        wanted = INTEGERS[1:5] + FLOATS if name in INTEGERS else ("int32", "int64", *FLOATS)
        found += [
            Expression(f"a.to(tl.{to})", blocks, name, name) for to in wanted for blocks in (True, False)
        ]
    for name, fp8, blocks in product(FLOATS, ("float8e4nv", "float8e5"), (True, False)):
        found.append(Expression(f"a.to(tl.{fp8})", blocks, name, name))
        found.append(Expression(f"a.to(tl.{name})", blocks, fp8, fp8))
    return found


def kernel_of(one: Expression) -> str:
    """Return the name of the kernel that calculates an expression, of operands of any type."""
    kinds = sorted({(other.text, other.of_blocks) for other in expressions()})
    return f"kernel_{kinds.index((one.text, one.of_blocks))}"


def source() -> str:
    """Return the source of all kernels."""
    codes = [f"    if of == tl.{name}:\n        tl.store(code, {i})" for i, name in enumerate(NAMES)]
    kernels = {
        kernel_of(one): KERNEL.format(
            name=kernel_of(one),
            at="tl.arange(0, N)" if one.of_blocks else "tl.program_id(0)",
            expression=one.text,
            codes="\n".join(codes),
        )
        for one in expressions()
    }
    return HEAD + "".join(kernels.values())


def numbers(dtype: str, seed: int) -> torch.Tensor:
    """Return numbers of a type, among them its least and greatest, small ones and halves."""
    draw = np.random.default_rng(seed)
    if dtype == "int1":
        return torch.from_numpy(draw.integers(0, 2, N).astype(bool))
    if dtype in INTEGERS:
        least, greatest = (getattr(torch.iinfo(DTYPES[dtype]), end) for end in ("min", "max"))
        edges = [least, least + 1, greatest, greatest - 1, greatest // 3, 0, 1, 2, 7, 16, 17, 31, 100]
        edges += [max(least, -number) for number in (1, 2, 7, 16, 17, 100)]
        some = edges + draw.integers(max(least, -50), 50, N - len(edges)).tolist()
        return torch.from_numpy(np.array(some, dtype=dtype)[draw.permutation(N)])
    halves = [*(draw.integers(-900, 900, N - 6) / 2.0).tolist(), 0.1, -0.3, 31.1, 1.0, 1e-3, 240.0]
    return torch.tensor(halves, dtype=torch.float32)[draw.permutation(N)].to(DTYPES[dtype])


def operands(one: Expression) -> list[torch.Tensor]:
    """Return a and b; c, which is b without what no number is divided by; amounts to shift by; and places."""
    a, b = numbers(one.a, 1), numbers(one.b, 2)
    c = b
    if one.b in INTEGERS:
        wide = b.to(torch.int64)
        c = torch.where((wide == 0) | (wide == -1), 3, wide).to(b.dtype)
    bits = min(int("".join(filter(str.isdigit, one.a)) or 8), 32)
    d = (torch.arange(N) * 5 % max(bits - 1, 1)).to(b.dtype if one.b in INTEGERS[1:] else torch.int32)
    return [a, b, c, d, torch.arange(N, dtype=torch.int32) * 7 % N]
