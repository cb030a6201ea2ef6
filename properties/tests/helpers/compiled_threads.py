"""Compile the kernels of ``wrong_threads`` for sm_90, and print their stores, loads and barriers as JSON."""

import json
import re

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from cumae.properties.tests.functions import wrong_threads

KERNELS = (
    "_reversed",
    "_scattered",
    "_one_for_all",
    "_one_behind",
    "_turned",
    "_moved_down",
    "_reversed_in_place",
    "_cleared_too_early",
    "_counted_by_all",
    "_turned_in_place",
    "_reversed_behind_a_barrier",
    "_reversed_behind_a_sum",
)
VARIANTS = ((64, False), (1024, True))
TYPES = {"right": "*i64", "out": "*i64", "words": "*i64", "count": "i32", "TILE": "constexpr"}
ALIGNED = {(i,): [["tt.divisibility", 16]] for i in range(4)}


def compiled(name: str, tile: int, *, aligned: bool) -> dict[str, list[str]]:
    """Return the global stores and loads and the barriers of a kernel, and the orders of its layouts."""
    kernel = getattr(wrong_threads, name)
    source = ASTSource(kernel, dict(TYPES), {(4,): tile}, ALIGNED if aligned else None)
    texts = triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm
    words = re.findall(r"\b(?:(ld|st)\.global|(bar)\.sync)", texts["ptx"])
    orders = re.findall(r"#ttg\.blocked<.*order = (\[.*?\])", texts["ttgir"])
    return {"accesses": ["".join(word) for word in words], "orders": orders}


if __name__ == "__main__":
    found = {name: [compiled(name, tile, aligned=aligned) for tile, aligned in VARIANTS] for name in KERNELS}
    print(json.dumps(found))
