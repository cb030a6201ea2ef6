"""The dialect of the kernels shipped here: the oracle's own names, held as small tensors."""

from dataclasses import replace
from typing import Any

import numpy as np

from cumae.oracle import INPUTS, Case, Inputs
from cumae.properties.dialects.dialect import Dialect, Input, NamedOutput
from cumae.properties.dialects.held import ITEM_BYTES, Floats, Held, Ints, Rows, floats, ints, rows

_INDEX = ("context_lens", "query_lens", "seq_lens", "row_index")
_INT32 = ("cu_seqlens_q", "cu_seqlens_k", "token_to_request")
_ON_HOST = ("context_lens_cpu", "query_lens_cpu")
_OF_THE_STEP_BEFORE = ("previous_context_lens", "previous_query_lens")
_CARRIES = {
    "block_table": ("missing_blocks",),
    "context_lens_cpu": ("host_lens",),
    "cu_seqlens_k": ("key_scope",),
    "max_context_len": ("context_slack",),
    "max_num_tokens": ("num_spare_tokens",),
    "query_lens_cpu": ("host_lens",),
    "selected_positions": ("topk",),
    "topk_indices": ("topk",),
    "workspace_tokens": ("workspace",),
}


def row_dtype(case: Case) -> tuple[str, int]:
    """Return dtype and width of a latent row."""
    options = case.options
    dtype = "uint8" if options.row_format == "fp8" else options.row_format
    return dtype, options.row_bytes // ITEM_BYTES[dtype]


def num_blocks(case: Case) -> int:
    """Return how many blocks the cache has: up to the largest id, and the spare ones."""
    largest = max((max(r.block_ids, default=-1) for r in case.batch.requests), default=-1)
    return largest + 1 + case.layout.num_spare_blocks


def cached_places(case: Case) -> list[tuple[int, int]]:
    """Return block and offset of every cached token of the step."""
    size = case.batch.block_size
    places = {
        (request.block_ids[position // size], position % size)
        for request in case.batch.requests
        for position in range(request.context_len)
        if request.block_ids[position // size] >= 0
    }
    return sorted(places)


def _list(name: str, dtype: str | None) -> Input:
    def hold(inputs: Inputs) -> Held:
        layout, values = inputs.case.layout, inputs[name]
        return None if values is None else ints(values, dtype or layout.index_dtype, layout.garbage)

    return Input(hold, _CARRIES.get(name, ()))


def _block_table(inputs: Inputs) -> Ints:
    layout = inputs.case.layout
    table = inputs["block_table"]
    width = len(table[0]) if table else 0
    held = ints(table, layout.index_dtype, layout.garbage, width=width)
    step = layout.table_column_step
    return replace(held, strides=(width * step + layout.table_row_gap or 1, step))


def _topk_indices(inputs: Inputs) -> Ints:
    case = inputs.case
    return ints(inputs["topk_indices"], "int32", case.layout.garbage, width=case.options.topk)


def _selected_positions(inputs: Inputs) -> Ints:
    case = inputs.case
    return ints(inputs["selected_positions"], "int32", case.layout.garbage, width=case.options.topk)


def held_logits(inputs: Inputs) -> Floats:
    """Return the router's logits [T, E] as a tensor."""
    layout, options = inputs.case.layout, inputs.case.options
    return floats(inputs["logits"], options.logits_dtype, layout.garbage, width=options.num_experts)


def held_bias(inputs: Inputs) -> Floats:
    """Return the router's bias [E] as a tensor."""
    return floats(inputs["bias"], inputs.case.options.bias_dtype, inputs.case.layout.garbage)


def _cache(inputs: Inputs) -> Rows:
    """Blocks up to the largest id; the cached rows of the step are live."""
    case = inputs.case
    size = case.batch.block_size
    dtype, width = row_dtype(case)
    row = width + case.layout.cache_row_gap
    shape = (num_blocks(case), size, width)
    live = np.array(cached_places(case), dtype=np.int64).reshape(-1, 2)
    return rows(shape, dtype, (size * row, row, 1), live, case.layout.garbage, seed=1)


def _new_rows(inputs: Inputs) -> Rows:
    case = inputs.case
    dtype, width = row_dtype(case)
    live = np.arange(case.batch.num_tokens, dtype=np.int64).reshape(-1, 1)
    shape = (case.num_tokens_padded, width)
    return rows(shape, dtype, (width + case.layout.key_row_gap, 1), live, case.layout.garbage, seed=2)


def _host(name: str) -> Input:
    def hold(inputs: Inputs) -> Held:
        value: Held = inputs[name]
        return value

    return Input(hold, _CARRIES.get(name, ()))


def _pack_windows(answer: Any, inputs: Inputs) -> list[Any]:
    return [bound for pair in zip(answer.ks, answer.ke, strict=True) for bound in pair]


def _inputs() -> dict[str, Input]:
    named = {name: Input(_host(name).hold, _CARRIES.get(name, ())) for name in INPUTS}
    named |= {name: _list(name, None) for name in (*_INDEX, *_ON_HOST, *_OF_THE_STEP_BEFORE)}
    named |= {name: _list(name, "int32") for name in _INT32}
    named["is_prefill"] = _list("is_prefill", "bool")
    named["position_ids"] = _list("position_ids", "int64")
    named["block_table"] = Input(_block_table, _CARRIES["block_table"])
    named["topk_indices"] = Input(_topk_indices, _CARRIES["topk_indices"])
    named["selected_positions"] = Input(_selected_positions, _CARRIES["selected_positions"])
    named["logits"] = Input(held_logits, ("router",))
    named["bias"] = Input(held_bias, ("router",))
    named["cache"] = Input(_cache, ("row_format",))
    named["new_rows"] = Input(_new_rows, ("row_format",))
    return named


CUMAE = Dialect(
    "cumae",
    _inputs(),
    {
        ("causal_windows", "windows"): NamedOutput(
            "int32",
            lambda inputs: 2 * inputs.case.num_tokens_padded,
            _pack_windows,
            axis="token",
            per_item=2,
            says="windows",
        )
    },
    row_name="row_index",
)
