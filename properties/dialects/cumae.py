"""The dialect of the kernels shipped here: the oracle's own names, held as small tensors."""

from dataclasses import replace
from typing import Any

import numpy as np

from cumae.oracle import INPUTS, Case, Inputs, Layout, local_len
from cumae.properties.cases.features import FEATURES
from cumae.properties.dialects.dialect import Dialect, Input
from cumae.properties.dialects.heads import new_keys, new_values, two_caches
from cumae.properties.dialects.held import (
    ITEM_BYTES,
    Floats,
    Held,
    IntArray,
    Ints,
    Rows,
    floats,
    in_table,
    ints,
    ints_of,
    rows,
    seed_in_step,
)
from cumae.properties.dialects.latents import new_latents
from cumae.properties.dialects.odd_rows import with_odd_rows
from cumae.properties.dialects.output import Output
from cumae.properties.dialects.pages_read import held_pages

_INDEX = ("context_lens", "chunk_context_lens", "query_lens", "seq_lens", "prefix_lens", "row_index")
_WIDE_OF_MIXED = frozenset(
    {"context_lens", "context_lens_cpu", "previous_context_lens", "seq_lens", "prefix_lens", "row_index"}
)
"""Inputs of 64 bits where widths are mixed; new tokens and block ids have 32."""
_INT32 = (
    "cu_seqlens_q",
    "cu_seqlens_k",
    "token_to_request",
    "workspace_ids",
    "workspace_starts",
    "num_drafts",
)
_INT64 = ("position_ids", "last_loc", "free_pages")
_ON_HOST = ("context_lens_cpu", "query_lens_cpu")
_OF_THE_STEP_BEFORE = ("previous_context_lens", "previous_query_lens")


def _carries(name: str) -> tuple[str, ...]:
    """Return the features that an input shows: those with a field of its name, or with rows that name it."""
    return tuple(sorted({row.name for row in FEATURES if name in (*row.shown_by, *row.fields)}))


def row_dtype(case: Case) -> tuple[str, int]:
    """Return the dtype and width of a latent row."""
    options = case.options
    dtype = "uint8" if options.rows.row_format == "fp8" else options.rows.row_format
    return dtype, options.rows.row_bytes // ITEM_BYTES[dtype]


def cached_places(inputs: Inputs) -> IntArray:
    """Return block and offset [n, 2] of every cached token that the rank holds and that has a block."""
    places: IntArray = inputs.once("cached places", lambda: _cached_places(inputs.case))
    return places


def _cached_places(case: Case) -> IntArray:
    size, world, parallel = case.batch.block_size, case.batch.world, case.options.parallel
    slots = [np.empty(0, dtype=np.int64)]
    for request in case.batch.requests:
        num_held = local_len(request.context_len, world, parallel.rank, parallel.interleave)
        index = np.arange(min(num_held, len(request.block_ids) * size))
        blocks = np.array(request.block_ids, dtype=np.int64)[index // size]
        slots.append((blocks * size + index % size)[blocks >= 0])
    return np.stack(np.divmod(np.unique(np.concatenate(slots)), size), axis=1)


def index_dtype(name: str, layout: Layout) -> str:
    """Return the dtype of lengths, rows or ids: that of the layout, or one of two where they are mixed."""
    if layout.index_dtype != "mixed":
        return layout.index_dtype
    return "int64" if name in _WIDE_OF_MIXED else "int32"


def _list(name: str, dtype: str | None) -> Input:
    def hold(inputs: Inputs) -> Held:
        layout, values = inputs.case.layout, inputs[name]
        return None if values is None else ints_of(inputs, name, dtype or index_dtype(name, layout))

    return Input(hold, _carries(name))


def _block_table(inputs: Inputs) -> Ints:
    layout = inputs.case.layout
    table = inputs["block_table"]
    width = len(table[0]) if table else 0
    held = ints_of(inputs, "block_table", index_dtype("block_table", layout), width=width)
    return in_table(held, layout, is_free=True)


def _topk_indices(inputs: Inputs) -> Ints:
    return ints_of(inputs, "topk_indices", "int32", width=inputs.case.options.selection.topk)


def _selected_positions(inputs: Inputs) -> Ints:
    return ints_of(inputs, "selected_positions", "int32", width=inputs.case.options.selection.topk)


def held_logits(inputs: Inputs) -> Floats:
    """Return the router's logits [T, E] as a contiguous tensor."""
    layout, options = inputs.case.layout, inputs.case.options
    return floats(
        inputs["logits"], options.router.logits_dtype, layout.garbage, width=options.router.num_experts
    )


def _logits(inputs: Inputs) -> Floats:
    """Return the logits as rows with gaps."""
    return replace(held_logits(inputs), row_gap=inputs.case.layout.new_row_gap)


def held_bias(inputs: Inputs) -> Floats:
    """Return the router's bias [E] as a tensor."""
    return floats(inputs["bias"], inputs.case.options.router.bias_dtype, inputs.case.layout.garbage)


def held_cache(inputs: Inputs, *, gap: int = 1) -> Rows:
    """Return the blocks up to the largest id; the cached rows of the step are live.

    ``gap``: elements for each element of the layout's ``cache_row_gap`` and ``cache_block_gap``.
    """
    case = inputs.case
    size = case.batch.block_size
    dtype, width = row_dtype(case)
    row = width + case.layout.cache_row_gap * gap
    block = (size * row + case.layout.cache_block_gap * gap) * (1 + case.layout.cache_in_turns)
    shape = (case.num_cache_blocks, size, width)
    places = cached_places(inputs)
    return rows(shape, dtype, (block, row, 1), places, case.layout.garbage, seed_in_step(inputs, 1))


def cache_before(inputs: Inputs) -> Rows:
    """Return the cache that new rows are written into; fp8 rows contain words and are aligned to them."""
    return held_cache(inputs, gap=16 if inputs.case.options.rows.row_format == "fp8" else 1)


def held_latents(inputs: Inputs) -> Rows:
    """Return the rows to be written, in the cache's format, or bf16 for fp8; spare rows have no slot."""
    case = inputs.case
    if case.options.rows.row_format == "fp8":
        return new_latents(inputs)
    dtype, width = row_dtype(case)
    shape = (case.max_num_tokens, width)
    return _new(case, shape, dtype, seed_in_step(inputs, 2))


def held_slots(inputs: Inputs) -> Ints:
    """Return slots; a missing slot is -1, or another negative number as the garbage kind says."""
    garbage = inputs.case.layout.garbage
    first, turn = {"plausible": (-2, 7), "huge": (-(2**40), 1000)}.get(garbage, (-1, 1))
    slots = [slot if slot >= 0 else first - i % turn for i, slot in enumerate(inputs["slot_mapping"])]
    return ints(slots, "int64", garbage)


def _new_rows(inputs: Inputs) -> Rows:
    case = inputs.case
    dtype, width = row_dtype(case)
    return _new(case, (case.num_tokens_padded, width), dtype, seed_in_step(inputs, 2))


def _new(case: Case, shape: tuple[int, int], dtype: str, seed: int) -> Rows:
    """Return new rows as the cache holds them; those of tokens are live."""
    live = np.arange(case.batch.num_tokens, dtype=np.int64).reshape(-1, 1)
    strides = (shape[1] + case.layout.new_row_gap, 1)
    held = rows(shape, dtype, strides, live, case.layout.garbage, seed)
    return with_odd_rows(held, live[:, 0]) if case.options.rows.odd_rows else held


def _host(name: str) -> Input:
    def hold(inputs: Inputs) -> Held:
        value: Held = inputs[name]
        return value

    return Input(hold, _carries(name))


def _pack_windows(answer: Any, inputs: Inputs) -> list[Any]:
    return [bound for pair in zip(answer.ks, answer.ke, strict=True) for bound in pair]


def _inputs() -> dict[str, Input]:
    named = {name: Input(_host(name).hold, _carries(name)) for name in INPUTS}
    named |= {name: _list(name, None) for name in (*_INDEX, *_ON_HOST, *_OF_THE_STEP_BEFORE)}
    named |= {name: _list(name, "int32") for name in _INT32}
    named["is_prefill"] = _list("is_prefill", "bool")
    named |= {name: _list(name, "int64") for name in _INT64}
    named["block_table"] = Input(_block_table, _carries("block_table"))
    named["topk_indices"] = Input(_topk_indices, _carries("topk_indices"))
    named["selected_positions"] = Input(_selected_positions, _carries("selected_positions"))
    named["logits"] = Input(_logits, _carries("logits"))
    named["bias"] = Input(held_bias, _carries("bias"))
    named["cache"] = Input(held_cache, _carries("cache"))
    named["new_latents"] = Input(held_latents, _carries("new_latents"))
    named["new_keys"] = Input(new_keys, _carries("new_keys"))
    named["new_values"] = Input(new_values, _carries("new_values"))
    named["pages"] = Input(held_pages, _carries("pages"))
    named["slot_mapping"] = Input(held_slots, _carries("slot_mapping"))
    named["new_rows"] = Input(_new_rows, _carries("new_rows"))
    return named


CUMAE = Dialect(
    "cumae",
    _inputs(),
    {
        "causal_windows": (
            Output(
                "windows",
                "int32",
                "window",
                shape=lambda case: (2 * case.num_tokens_padded,),
                expect=_pack_windows,
                per_item=2,
            ),
        ),
        "page_write": two_caches("new_keys", "new_values"),
    },
    row_name="row_index",
)
