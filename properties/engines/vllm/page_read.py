"""Keys and values gathered out of pages, and keys of the indexer with their scales."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch

from cumae.properties.dialects import CUMAE
from cumae.properties.engines.read_rows import EXACT, Planes, planes_of, rows_of
from cumae.properties.engines.vllm.engine import ENGINE, STEPS

Tensor = torch.Tensor
_FILE = "vllm/v1/attention/backends/rocm_aiter_fa.py"
_POWERS = ((1, 1), (8, 8), (16, 16), (64, 64), (128, 128))
_READ = STEPS.having(
    padding="none",
    rowless_requests=False,
    missing_blocks=False,
    index_dtype=("int32",),
    max_block_id=2**12,
    max_context_len=1024,
    key_slack=(0, 1, 9),
    head_dims=_POWERS,
)
"""The kernel reads a power of two of elements of each head; it has no rows of requests and no capacity."""
_COPIED = ("bf16", "fp16", "fp32")
_STUBS: dict[str, Any] = {"current_platform": SimpleNamespace(is_rocm=lambda: True)}


def _by_token(planes: Planes, block_size: int) -> tuple[Tensor, Tensor]:
    """Return both as [blocks, tokens, heads, elements]."""
    _, heads, dim = planes.new_keys.shape
    shape = (len(planes.keys), block_size, heads, dim)
    return planes.keys.view(shape), planes.values.view(shape)


def _gathering(function: Any, layout: str) -> Callable[..., None]:
    """Return a launch. In shuffled pages only the strides between blocks of the views below are used."""

    def launch(
        pages: Tensor,
        block_table: Tensor,
        seq_lens: Tensor,
        block_size: int,
        num_heads: int,
        window: int,
        head_format: str,
        key_scale: float,
        value_scale: float,
        keys: Tensor,
        values: Tensor,
    ) -> None:
        lens, sums = rows_of(seq_lens, window)
        count = min(int(sums[-1]), len(keys))
        if not count:
            return
        planes = planes_of(pages, keys, values, num_heads, block_size)
        caches = _by_token(planes, block_size)
        if head_format == "fp8":
            caches = caches[0].view(torch.float8_e4m3fn), caches[1].view(torch.float8_e4m3fn)
        owner = torch.repeat_interleave(torch.arange(len(lens), device=lens.device), lens).int()
        scales = (torch.tensor([scale], device=lens.device) for scale in (key_scale, value_scale))
        where = (block_table[: len(lens)].contiguous(), *scales, sums, owner, seq_lens - lens)
        function(*caches, planes.new_keys, planes.new_values, *where, head_format == "fp8", layout, count)

    return launch


@ENGINE.adapts(
    _FILE,
    "cp_mha_gather_cache",
    operation="page_read",
    dialect=CUMAE,
    domain=_READ.having(page_order=("NHD",), head_format=_COPIED),
    **_STUBS,
)
def cp_mha_gather_cache(function: Any) -> Callable[..., None]:
    """Keys and values of a chunk of each sequence, here of its last keys."""
    return _gathering(function, "NHD")


@ENGINE.adapts(
    _FILE,
    "cp_mha_gather_cache",
    operation="page_read",
    dialect=CUMAE,
    domain=_READ.having(page_order=("NHD",), head_format=("fp8",), **EXACT),
    **_STUBS,
)
def cp_mha_gather_cache_of_fp8(function: Any) -> Callable[..., None]:
    """The same from bytes with a scale of all keys and one of all values."""
    return _gathering(function, "NHD")


@ENGINE.adapts(
    _FILE,
    "cp_mha_gather_cache",
    operation="page_read",
    dialect=CUMAE,
    domain=_READ.having(
        page_order=("shuffled",), head_format=_COPIED, block_sizes=(8, 16, 64), head_dims=_POWERS[2:]
    ),
    **_STUBS,
)
def cp_mha_gather_cache_shuffled(function: Any) -> Callable[..., None]:
    """The same from the two layouts of AITER."""
    return _gathering(function, "SHUFFLE")


@ENGINE.adapts(
    "vllm/v1/attention/ops/rocm_aiter_mla_sparse.py",
    "cp_gather_indexer_k_quant_cache_triton",
    operation="page_read",
    dialect=CUMAE,
    domain=_READ.having(
        window=(0,), page_order=("NHD",), head_format=("bytes",), num_heads=(1,), head_dims=((128, 4),)
    ),
    _ON_GFX950=False,
    FP8_DTYPE=torch.float8_e4m3fn,
)
def cp_gather_indexer_k(function: Any) -> Callable[..., None]:
    """Keys of the indexer, 128 bytes of fp8, and behind those of a page their scales of 4 bytes."""

    def launch(
        pages: Tensor,
        block_table: Tensor,
        seq_lens: Tensor,
        block_size: int,
        keys: Tensor,
        values: Tensor,
    ) -> None:
        lens, sums = rows_of(seq_lens, 0)
        count = min(int(sums[-1]), len(keys))
        if not count:
            return
        owner = torch.repeat_interleave(torch.arange(len(lens), device=lens.device), lens).int()
        cache = pages.flatten(1).view(len(pages), block_size, 132)
        codes, scales = keys[:count].view(count, 128), values[:count].view(count, 4)
        where = (block_table[: len(lens)].contiguous(), sums, owner)
        function(cache, codes.view(torch.float8_e4m3fn), scales, *where, cache_layout="NORMAL")

    return launch
