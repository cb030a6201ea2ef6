"""The names that vLLM's MLA adds to its dialect for new rows: the arguments of ``concat_and_cache_mla``."""

import numpy as np

from cumae.oracle import Case, Inputs
from cumae.properties.dialects.cumae import cache_before, held_latents
from cumae.properties.dialects.dialect import Input
from cumae.properties.dialects.heads import new_keys, new_values, pages_before, pieces_of, two_caches
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


def _kv_cache_dtype(inputs: Inputs) -> str:
    """Return the format of latent rows, or of keys and values; no case has two that are not neutral."""
    options = inputs.case.options
    if options.rows.row_format == "fp8":
        return "fp8_ds_mla"
    return _DTYPES.get(options.heads.head_format, "auto")


_ROWS = ("num_spare_tokens", "row_format")
CACHE_INPUTS = {
    "kv_c": Input(lambda inputs: _part(inputs, rope=False), _ROWS),
    "k_pe": Input(lambda inputs: _part(inputs, rope=True), _ROWS),
    "kv_c_and_k_pe": Input(held_latents, _ROWS),
    "slot_mapping": Input(_slots, ("interleave", "missing_blocks", "rank", "world")),
    "kv_cache_dtype": Input(
        _kv_cache_dtype,
        ("row_format", "head_format"),
    ),
    "scale": Input(lambda _: Floats(np.ones(1), "fp32")),
}
_DTYPES = {"fp8": "fp8", "fp8_own": "fp8_per_token_head", "int8_own": "int8_per_token_head"}
_PAGED = ("num_spare_tokens", "head_format")


def _scale(name: str) -> Input:
    def hold(inputs: Inputs) -> Floats:
        return Floats(np.array([inputs[name]]), "fp32")

    return Input(hold, (f"{name}_thousandths",))


PAGE_WRITE_INPUTS = {
    "key": Input(new_keys, (*_PAGED, "num_heads", "head_dims")),
    "value": Input(new_values, (*_PAGED, "num_heads", "head_dims")),
    "kv_cache_layout": Input(lambda inputs: inputs["page_order"], ("page_order",)),
    "k_scale": _scale("key_scale"),
    "v_scale": _scale("value_scale"),
}
CACHE_OUTPUTS = {
    "page_write": (
        Output(
            "kv_cache",
            follows="pages",
            pieces=pieces_of("key", "value"),
            before=pages_before,
            is_captured=False,
        ),
        *two_caches("key", "value"),
    ),
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
