"""Tables and lists of keys of a unified pool, whose pages are virtual."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from cumae.oracle import Case, Inputs
from cumae.properties.dialects import SGLANG, Output
from cumae.properties.dialects.sglang.pages import page_columns
from cumae.properties.dialects.sglang.step import cache_seqlens
from cumae.properties.engines.arrays import int32
from cumae.properties.engines.pages import having, slots_of
from cumae.properties.engines.sglang.engine import DECODES, ENGINE
from cumae.properties.engines.sglang.mapped_tables import MAPPED, of_pages, table
from cumae.properties.engines.sglang.unified_lists import WHOLE
from cumae.properties.engines.sglang.virtual_slots import SHIFT, map_of_pages, physical_of

Tensor = torch.Tensor
_TABLES = "sglang/kernels/ops/kvcache/kv_read_table.py"
_READ = table("read_table", of_pages(SHIFT))


@ENGINE.adapts(
    _TABLES,
    "build_kv_read_indices_kernel",
    "_gather_translate_items",
    operation="page_table",
    dialect=having(SGLANG.extend(v2p=map_of_pages, columns=page_columns), "page_table", _READ),
    domain=DECODES.having(**MAPPED),
)
def kv_read_table(kernel: Any, _: Any) -> Callable[..., None]:
    """Physical pages of each request; tails stay."""

    def launch(
        req_to_token: Tensor,
        req_pool_indices: Tensor,
        cache_seqlens_int32: Tensor,
        v2p: Tensor,
        page_size: int,
        columns: int,
        read_table: Tensor,
    ) -> None:
        step = (req_to_token, req_pool_indices, cache_seqlens_int32 - 1, v2p, None, None, read_table)
        strides = (req_to_token.stride(0), read_table.stride(0), 2 * 16, 1, columns)
        how = {"EMIT_PER_TOKEN": False, "OUT_INT64": False, "ZERO_TAIL": False, "BLOCK": 16}
        kernel[(len(req_pool_indices), 2)](*step, *strides, PAGE_SIZE=page_size, **how)

    return launch


def _window_starts(case: Case) -> list[int]:
    window = case.options.keys.window
    return [max(length - window, 0) if window else 0 for length in cache_seqlens(case)]


def _window_lens(case: Case) -> list[int]:
    return [length - start for length, start in zip(cache_seqlens(case), _window_starts(case), strict=True)]


def _stream(_: Any, inputs: Inputs) -> list[int]:
    """Return the physical slots of the keys of each window."""
    case = inputs.case
    rows = zip(slots_of(case), _window_starts(case), strict=True)
    return physical_of([slot for slots, start in rows for slot in slots[start:]], case)


@ENGINE.adapts(
    _TABLES,
    "build_kv_read_indices_kernel",
    "_gather_translate_items",
    operation="kv_indices",
    dialect=having(
        SGLANG,
        "kv_indices",
        Output(
            "stream",
            "int64",
            "place_of_stream",
            "the physical slots of the keys in each window",
            follows="kv_indices",
            shape=lambda case: (sum(_window_lens(case)),),
            expect=_stream,
        ),
        v2p=map_of_pages,
        first_positions=int32(_window_starts),
        lens_in_window=int32(_window_lens),
        starts_of_rows=int32(lambda case: [0, *np.cumsum(_window_lens(case)).tolist()]),
    ),
    domain=WHOLE.having(
        max_block_id=MAPPED["max_block_id"], block_sizes=MAPPED["block_sizes"], max_context_len=4096
    ),
)
def kv_read_stream(kernel: Any, _: Any) -> Callable[..., None]:
    """Physical slots of all keys, or of those in a window, in one list."""

    def launch(
        req_to_token: Tensor,
        req_pool_indices: Tensor,
        lens_in_window: Tensor,
        v2p: Tensor,
        starts_of_rows: Tensor,
        first_positions: Tensor,
        page_size: int,
        sliding_window_size: int,
        stream: Tensor,
    ) -> None:
        first = first_positions if sliding_window_size else None
        step = (req_to_token, req_pool_indices, lens_in_window, v2p, starts_of_rows, first, stream)
        strides = (req_to_token.stride(0), 0, 2 * 64, 0, len(stream))
        how = {"EMIT_PER_TOKEN": True, "OUT_INT64": True, "ZERO_TAIL": False, "BLOCK": 64}
        kernel[(len(req_pool_indices), 2)](*step, *strides, PAGE_SIZE=page_size, **how)

    return launch
