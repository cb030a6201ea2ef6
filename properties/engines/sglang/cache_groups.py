"""Slots of windows and of compressed states in the DeepSeek V4 backend."""

from collections.abc import Callable
from typing import Any

import torch

from cumae.properties.engines.sglang.engine import ENGINE, STEPS

Tensor = torch.Tensor
_UNPADDED = STEPS.having(padding="none")
_WINDOWED = _UNPADDED.having(window=(1, 2, 3, 4, 16, 127, 128, 129, 512, 1024), max_block_id=2**17)
_WINDOWS = "sglang/kernels/ops/attention/dsv4/attn_metadata_kernels.py"


@ENGINE.adapts(_WINDOWS, "build_causal_swa_page_indices", operation="window_slots", domain=_WINDOWED)
def causal_swa_page_indices(function: Any) -> Callable[..., dict[str, Tensor]]:
    """Windows in torch, newest position first, through the map of the window's pool."""
    return _windows(function)


@ENGINE.adapts(_WINDOWS, "build_causal_swa_page_indices_triton", operation="window_slots", domain=_WINDOWED)
def causal_swa_page_indices_triton(function: Any) -> Callable[..., dict[str, Tensor]]:
    """The same by a Triton kernel, one program for each token."""
    return _windows(function)


def _windows(function: Any) -> Callable[..., dict[str, Tensor]]:
    def launch(
        req_to_token: Tensor,
        full_to_swa_mapping: Tensor,
        req_pool_indices_repeated: Tensor,
        seq_lens_casual: Tensor,
        swa_window: int,
        page_index_aligned_size: int,
    ) -> dict[str, Tensor]:
        found = function(
            req_to_token=req_to_token,
            full_to_swa_mapping=full_to_swa_mapping,
            req_pool_indices_repeated=req_pool_indices_repeated,
            seq_lens_casual=seq_lens_casual,
            swa_window=swa_window,
            page_index_aligned_size=page_index_aligned_size,
        )
        return {"swa_page_indices": found}

    return launch


@ENGINE.adapts(
    "sglang/kernels/ops/attention/dsv4/metadata_kernel.py",
    "_init_compressed_attn_metadata_triton",
    operation="compressed_slots",
    domain=_UNPADDED.having(block_sizes=(128, 256)),
)
def compressed_attn_metadata(function: Any) -> Callable[..., dict[str, Tensor]]:
    """States of 4 and of 128 tokens; slot 0 stands for none."""

    def launch(seq_lens_casual: Tensor, positions: Tensor, raw_out_loc: Tensor) -> dict[str, Tensor]:
        found = function(seq_lens_casual, positions, raw_out_loc, compute_page_indices=False)
        return {"c4_out_loc": found[0], "c128_out_loc": found[4]}

    return launch


_EVEN = _UNPADDED.having(block_sizes=(2, 4, 8, 16, 64, 128, 256))


@ENGINE.adapts(
    "sglang/srt/layers/attention/deepseek_v4_backend.py",
    "_low_ratio_compression_metadata",
    operation="compressed_slots",
    domain=_EVEN,
)
def low_ratio_compression(function: Any) -> Callable[..., dict[str, Tensor]]:
    """States of one and of two tokens in torch; -1 stands for none."""

    def launch(seq_lens_casual: Tensor, raw_out_loc: Tensor) -> dict[str, Tensor]:
        found = {ratio: function(ratio, seq_lens_casual, raw_out_loc)[0] for ratio in (1, 2)}
        return {f"c{ratio}_out_loc": slots for ratio, slots in found.items()}

    return launch


@ENGINE.adapts(
    "sglang/kernels/ops/attention/dsv4/metadata_kernel.py",
    "build_low_ratio_metadata",
    operation="compressed_slots",
    domain=_EVEN,
)
def low_ratio_metadata(function: Any) -> Callable[..., dict[str, Tensor]]:
    """The same for decodes, by a Triton kernel."""

    def launch(seq_lens_casual: Tensor, raw_out_loc: Tensor) -> dict[str, Tensor]:
        found = function(seq_lens_casual, raw_out_loc, 64)
        return {"c1_out_loc": found.c1_out_loc, "c2_out_loc": found.c2_out_loc}

    return launch
