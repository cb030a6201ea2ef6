"""The names of rows that vLLM writes to a cache and gathers from it, of MLA and of several heads."""

from functools import partial
from itertools import accumulate

import numpy as np

from cumae.oracle import GARBAGE, Case, Inputs
from cumae.properties.dialects.cumae import cache_before, held_latents
from cumae.properties.dialects.dialect import Input
from cumae.properties.dialects.heads import new_keys, new_values, pages_before, pieces_of, two_caches
from cumae.properties.dialects.held import ITEM_BYTES, Floats, Ints, Rows, ints
from cumae.properties.dialects.latents import as_cached
from cumae.properties.dialects.output import Output, Piece
from cumae.properties.dialects.pages_read import gathered_from_plane, held_pages, held_plane

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


def _read_lens(case: Case) -> list[int]:
    """Return how many keys of each request are gathered."""
    window = case.options.keys.window
    lens = [min(request.seq_len, window or request.seq_len) for request in case.batch.requests]
    return lens + [0] * case.layout.num_padding_requests


def _cu_seqlens_kv(inputs: Inputs) -> Ints:
    return ints([0, *accumulate(_read_lens(inputs.case))], "int32", inputs.case.layout.garbage)


def _token_to_batch(inputs: Inputs) -> Ints:
    """Return the request of each gathered key, then anything up to the end of the buffers."""
    case = inputs.case
    owners = [b for b, length in enumerate(_read_lens(case)) for _ in range(length)][: case.read_capacity]
    spare = [GARBAGE] * (case.read_capacity - len(owners))
    return ints([*owners, *spare], "int32", case.layout.garbage)


def _seq_starts(inputs: Inputs) -> Ints:
    starts = [all_of - n for all_of, n in zip(inputs["seq_lens"], _read_lens(inputs.case), strict=True)]
    return ints(starts, "int32", inputs.case.layout.garbage)


def _total_tokens(inputs: Inputs) -> int:
    return min(sum(_read_lens(inputs.case)), inputs.case.read_capacity)


_HEADS = ("head_format", "num_heads", "head_dims")
PAGE_READ_INPUTS = {
    "num_kv_heads": Input(lambda inputs: inputs["num_heads"], ("num_heads",)),
    "kv_cache": Input(held_pages, _HEADS),
    "key_cache": Input(partial(held_plane, "key"), _HEADS),
    "value_cache": Input(partial(held_plane, "value"), _HEADS),
    "cu_seqlens_kv": Input(_cu_seqlens_kv),
    "token_to_batch": Input(_token_to_batch),
    "seq_starts": Input(_seq_starts, ("window",)),
    "total_tokens": Input(_total_tokens, ("key_slack",)),
}
CACHE_OUTPUTS = {
    "page_read": (
        gathered_from_plane("key", "key", "key_cache"),
        gathered_from_plane("value", "value", "value_cache"),
    ),
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
