"""Rows of zeros, of -0.0, of NaN and of what the row before holds, as padding and masked tokens have them."""

import numpy as np

from cumae.properties.dialects.held import FLOATS, ITEM_BYTES, IntArray, Rows

_TURNS = 7
_NAN = {"bf16": 0x7FC0, "fp16": 0x7E00, "fp32": 0x7FC0_0000}


def with_odd_rows(held: Rows, tokens: IntArray, *, finite: bool = False) -> Rows:
    """Change the content of live rows, and return them: of seven tokens, three or four have odd ones.

    ``tokens``: the token of each row, which has as many rows as the others. ``finite``: none has NaN.
    """
    words = held.content.view(f"<u{ITEM_BYTES[held.dtype]}")
    turns, each = tokens % _TURNS, int((tokens == 0).sum())
    words[turns == 0] = 0
    words[turns == 4] = 1 << (8 * ITEM_BYTES[held.dtype] - 1)
    again = np.flatnonzero(turns == 2)
    words[again] = words[again - each]
    if held.dtype in FLOATS and not finite:
        words[turns == 6] = _NAN[held.dtype]
    return held
