"""Slots of each request's keys in one list: of all keys, of the last ones, of a rank's."""

from collections.abc import Callable
from itertools import accumulate
from typing import Any

import numpy as np
import torch

from cumae.oracle import UNTOUCHED, Case, Inputs, local_len
from cumae.properties.dialects import CUMAE, SGLANG, Output
from cumae.properties.dialects.sglang.pages import read_lens
from cumae.properties.engines.pages import having
from cumae.properties.engines.sglang.context_parallel import wide_table
from cumae.properties.engines.sglang.engine import ENGINE, STEPS

Tensor = torch.Tensor
_INDICES = "sglang/kernels/ops/attention/kv_indices.py"
_UNPADDED = STEPS.having(padding="none")


def _listed_lens(case: Case) -> Any:
    """Return how many keys of each request are listed."""
    window, lens = case.options.keys.window, read_lens(case)
    return np.array([min(length, window) if window else length for length in lens], dtype=np.int32)


def _listed_from(case: Case) -> Any:
    """Return the first listed position of each request."""
    return (np.array(read_lens(case), dtype=np.int32) - _listed_lens(case)).astype(np.int32)


def _offsets(case: Case) -> Any:
    return np.array([0, *accumulate(_listed_lens(case).tolist())], dtype=np.int32)


_LISTED = SGLANG.extend(listed_lens=_listed_lens, listed_from=_listed_from, offsets=_offsets)


@ENGINE.adapts(
    _INDICES,
    "create_flashinfer_kv_indices_triton",
    operation="kv_indices",
    dialect=_LISTED,
    domain=STEPS,
)
def flashinfer_kv_indices_of_keys(kernel: Any) -> Callable[..., None]:
    """Slots of all keys, or of the last ones of a sliding window; several programs share a request."""

    def launch(
        req_to_token: Tensor,
        req_pool_indices: Tensor,
        listed_lens: Tensor,
        listed_from: Tensor,
        offsets: Tensor,
        sliding_window_size: int,
        kv_indices: Tensor,
    ) -> None:
        first = listed_from if sliding_window_size else None
        rows = (req_to_token, req_pool_indices, listed_lens, offsets, first, kv_indices)
        kernel[(len(req_pool_indices), 2)](*rows, req_to_token.stride(0), TOKEN_BLOCK_PARALLEL=True)

    return launch


@ENGINE.adapts(
    _INDICES,
    "create_chunked_prefix_cache_kv_indices",
    operation="kv_indices",
    dialect=_LISTED,
    domain=STEPS,
)
def chunked_prefix_kv_indices_of_keys(kernel: Any) -> Callable[..., None]:
    """Slots of a chunk of each request; the chunk is all keys, or the last ones of a sliding window."""

    def launch(
        req_to_token: Tensor,
        req_pool_indices: Tensor,
        listed_from: Tensor,
        listed_lens: Tensor,
        offsets: Tensor,
        sliding_window_size: int,
        kv_indices: Tensor,
    ) -> None:
        rows = (req_to_token, req_pool_indices, listed_from, listed_lens, offsets, kv_indices)
        kernel[(len(req_pool_indices),)](*rows, req_to_token.stride(0))

    return launch


def _rank_range(length: int, case: Case) -> range:
    """Return the rank's local positions among the listed ones of a request."""
    world, rank, window = case.batch.world, case.options.parallel.rank, case.options.keys.window
    first = max(length - window, 0) if window else 0
    return range(local_len(first, world, rank, 1), local_len(length, world, rank, 1))


def _rank_lens(case: Case) -> Any:
    return np.array([len(_rank_range(r.seq_len, case)) for r in case.batch.requests], dtype=np.int32)


def _rank_offsets(case: Case) -> Any:
    return np.array([0, *accumulate(_rank_lens(case).tolist())], dtype=np.int32)


def _rank_from(case: Case) -> Any:
    """Return the first listed position of each request, counted over all ranks."""
    window, lens = case.options.keys.window, [request.seq_len for request in case.batch.requests]
    return np.array([max(length - window, 0) if window else 0 for length in lens], dtype=np.int32)


def _rank_slots(_: Any, inputs: Inputs) -> list[Any]:
    """Return the slots of the rank's keys: in its cache, a block holds ``block_size`` of them."""
    case, size = inputs.case, inputs.case.batch.block_size
    return [
        request.block_ids[i // size] * size + i % size
        for request in case.batch.requests
        for i in _rank_range(request.seq_len, case)
    ]


_OF_RANK = having(
    CUMAE,
    "kv_indices",
    Output(
        "rank_kv_indices",
        "int32",
        axis="key",
        follows="kv_indices",
        shape=lambda case: (int(_rank_offsets(case)[-1]),),
        expect=_rank_slots,
    ),
    wide_table=wide_table,
    rank_lens=_rank_lens,
    rank_offsets=_rank_offsets,
    rank_from=_rank_from,
)
RANKS = _UNPADDED.having(interleave=(1,), rowless_requests=False, missing_blocks=False)


@ENGINE.adapts(
    "sglang/kernels/ops/attention/dcp_kernels.py",
    "create_triton_kv_indices_for_dcp_triton",
    operation="kv_indices",
    dialect=_OF_RANK,
    domain=RANKS,
)
def kv_indices_of_rank(kernel: Any) -> Callable[..., None]:
    """Slots of the keys that a rank holds, of all positions or from one on."""

    def launch(
        wide_table: Tensor,
        rank_lens: Tensor,
        rank_offsets: Tensor,
        rank_from: Tensor,
        window: int,
        world: int,
        rank: int,
        rank_kv_indices: Tensor,
    ) -> None:
        rows = torch.arange(len(rank_lens), device=wide_table.device)
        first = rank_from if window else None
        tables = (wide_table, rows, rank_lens, rank_offsets, first, rank_kv_indices)
        kernel[(len(rank_lens),)](*tables, wide_table.stride(0), world, rank)

    return launch


def _rank_pages(answer: Any, inputs: Inputs) -> list[Any]:
    """Return the pages in which the rank holds keys; entries behind them keep their values."""
    case, size, width = inputs.case, inputs.case.batch.block_size, inputs["num_page_columns"]
    found: list[Any] = list(answer.page_table)
    for b, request in enumerate(case.batch.requests):
        held = -(-local_len(request.seq_len, case.batch.world, case.options.parallel.rank, 1) // size)
        found[b * width + held : (b + 1) * width] = [UNTOUCHED] * (width - held)
    return found


def _local_lens(case: Case) -> Any:
    world, rank = case.batch.world, case.options.parallel.rank
    return np.array([local_len(r.seq_len, world, rank, 1) for r in case.batch.requests], dtype=np.int32)


@ENGINE.adapts(
    "sglang/kernels/ops/attention/dcp_kernels.py",
    "create_mla_kv_page_table_for_dcp",
    operation="page_table",
    dialect=having(
        CUMAE,
        "page_table",
        Output("block_kv_indices", "int32", follows="page_table", expect=_rank_pages),
        wide_table=wide_table,
        held_lens=_local_lens,
    ),
    domain=RANKS.having(page_slack=(0, 1, 9), strided=True, views=("block_kv_indices",)),
)
def page_table_of_rank(kernel: Any) -> Callable[..., None]:
    """Pages in which a rank holds keys; tails stay."""

    def launch(
        wide_table: Tensor,
        held_lens: Tensor,
        world: int,
        rank: int,
        block_size: int,
        block_kv_indices: Tensor,
    ) -> None:
        rows = torch.arange(len(held_lens), device=wide_table.device)
        strides = (wide_table.stride(0), max(block_kv_indices.stride(0), 1))
        sizes = {"PHYSICAL_PAGE_SIZE": block_size, "DCP_SIZE": world, "DCP_RANK": rank}
        tiles = max(-(-block_kv_indices.shape[1] // 64), 1)
        tables = (wide_table, rows, held_lens, block_kv_indices, None, *strides)
        kernel[(len(held_lens), tiles)](*tables, **sizes, PAGES_PER_BLOCK=64, HAS_V2P=False)

    return launch
