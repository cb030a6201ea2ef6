"""Pages of a cache that are read: what they hold, and what the keys and values gathered from them are."""

from functools import lru_cache, partial

import numpy as np

from cumae.oracle import Case, Inputs, page_read, restored_number
from cumae.properties.dialects.heads import page_dtype, page_shape, page_strides
from cumae.properties.dialects.held import ByteArray, Rows, rows
from cumae.properties.dialects.output import Output, Piece


def read_dtype(case: Case) -> str:
    """Return the dtype of gathered keys and values: fp8 with a given scale becomes bf16."""
    return "bf16" if case.options.heads.head_format == "fp8" else page_dtype(case)


def held_pages(inputs: Inputs) -> Rows:
    """Return the pages of a step's cache; the units that the step reads are live, in fp8 they are numbers."""
    case = inputs.case
    answer = inputs.call(page_read)
    places = {unit[1:] for row in answer for unit in row if type(unit) is tuple}
    live = np.array(sorted(places), dtype=np.int64).reshape(-1, 2)
    shape = page_shape(case)
    held = rows(shape, page_dtype(case), page_strides(case, shape), live, case.layout.garbage, seed=7)
    if case.options.heads.head_format == "fp8":
        held.content[(held.content & 0x7F) == 0x7F] ^= 1
    return held


def gathered(kind: str, name: str = "", pages: str = "pages", rule: str = "") -> Output:
    """Return the output of gathered keys or values, under another ``name`` and from other ``pages``."""
    field = f"{kind}s"
    return Output(
        name or field,
        read_dtype,
        f"read_{kind}",
        rule,
        shape=partial(_read_shape, kind),
        follows=field,
        pieces={"page": Piece(pages, encode=partial(_as_read, kind))},
        carries=("key_slack",),
    )


def _read_shape(kind: str, case: Case) -> tuple[int, int, int]:
    """Return rows, units of a row, and elements of a unit."""
    heads = case.options.heads
    units = heads.key_units if kind == "key" else heads.value_units
    return case.capacity, heads.num_heads * units, page_shape(case)[2]


def _as_read(kind: str, case: Case, content: ByteArray) -> ByteArray:
    """Return units as they are read: unchanged, or as bf16 numbers of the oracle."""
    heads = case.options.heads
    if heads.head_format != "fp8":
        return content
    numbers = _numbers(heads.key_scale if kind == "key" else heads.value_scale)
    return numbers[content].view(np.uint8).reshape(len(content), -1)


@lru_cache(maxsize=16)
def _numbers(scale: float) -> np.ndarray:
    """Return the bf16 number of each byte of fp8, as bits; no page that is read holds the two NaN."""
    is_number = [code & 0x7F != 0x7F for code in range(256)]
    bits = [restored_number(code, scale) if is_number[code] else 0 for code in range(256)]
    return np.array(bits, dtype=np.uint16)
