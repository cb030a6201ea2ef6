"""The names that vLLM's MLA adds to its dialect for new rows: the arguments of ``concat_and_cache_mla``."""

import numpy as np

from cumae.oracle import Case, Inputs
from cumae.properties.dialects.cumae import cache_before, held_latents
from cumae.properties.dialects.dialect import Input
from cumae.properties.dialects.held import ITEM_BYTES, Floats, Ints, Rows, ints
from cumae.properties.dialects.latents import as_cached
from cumae.properties.dialects.output import Output, Piece

_ROPE_WIDTH = 64


def _part(inputs: Inputs, *, rope: bool) -> Rows:
    """Return the rotary columns of the new rows, or the columns before them."""
    whole, options = held_latents(inputs), inputs.case.options
    last = _ROPE_WIDTH if options.rows.row_format == "fp8" else options.rows.qk_rope_head_dim
    width, item = whole.shape[1], ITEM_BYTES[whole.dtype]
    first, stop = (width - last, width) if rope else (0, width - last)
    layout = inputs.case.layout
    row = stop - first + (layout.key_row_gap if rope else layout.new_row_gap)
    content = whole.content[:, first * item : stop * item]
    return Rows((whole.shape[0], stop - first), whole.dtype, (row, 1), whole.live, content, whole.fill)


def _slots(inputs: Inputs) -> Ints:
    return ints(inputs["slot_mapping"], "int64", inputs.case.layout.garbage)


def _cache_shape(case: Case) -> tuple[int, ...]:
    return (case.num_cache_blocks * case.batch.block_size, case.options.rows.row_bytes)


_ROWS = ("num_spare_tokens", "row_format")
CACHE_INPUTS = {
    "kv_c": Input(lambda inputs: _part(inputs, rope=False), _ROWS),
    "k_pe": Input(lambda inputs: _part(inputs, rope=True), _ROWS),
    "kv_c_and_k_pe": Input(held_latents, _ROWS),
    "slot_mapping": Input(_slots, ("interleave", "missing_blocks", "rank", "world")),
    "kv_cache_dtype": Input(
        lambda inputs: "fp8_ds_mla" if inputs.case.options.rows.row_format == "fp8" else "auto",
        ("row_format",),
    ),
    "scale": Input(lambda _: Floats(np.ones(1), "fp32")),
}
CACHE_OUTPUTS = {
    "cache_write": (
        Output(
            "kv_cache",
            "uint8",
            follows="cache",
            shape=_cache_shape,
            pieces={"new": Piece("kv_c_and_k_pe", encode=as_cached)},
            before=cache_before,
            is_captured=False,
        ),
    ),
}
