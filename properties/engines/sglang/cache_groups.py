"""Slots of windows and of compressed states in the DeepSeek V4 backend."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from cumae.oracle import GARBAGE, Case, Inputs, Request
from cumae.properties.dialects import SGLANG, Input, Ints, Output
from cumae.properties.dialects.held import ints
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


def _seen(case: Case) -> list[tuple[Request, int]]:
    """Return each token's request and the keys that it sees, its own included."""
    return [(r, seen) for r in case.batch.requests for seen in range(r.context_len + 1, r.seq_len + 1)]


def _of_tokens(name: str, rule: str, value: Callable[[int, Case], int]) -> Output:
    """Return an output with a number for each token, from the keys that it sees."""
    return Output(
        name,
        "int32",
        "token_of_states",
        rule,
        shape=lambda case: (case.batch.num_tokens,),
        expect=lambda _, inputs: [value(seen, inputs.case) for _, seen in _seen(inputs.case)],
    )


def _of_states(ratio: int) -> tuple[Output, ...]:
    """Return the outputs of caches with a state for ``ratio`` tokens."""
    return (
        _of_tokens(
            f"c{ratio}_positions",
            "the first position of the token's group",
            lambda seen, _: (seen - 1) // ratio * ratio,
        ),
        _of_tokens(f"c{ratio}_lens", "the whole groups that the token sees", lambda seen, _: seen // ratio),
        _of_tokens(f"c{ratio}_lens_clamped", "the same, at least 1", lambda seen, _: max(seen // ratio, 1)),
    )


def _pages_of_tokens(inputs: Inputs) -> Ints:
    """Return the pages of each token's request, and garbage behind them."""
    case, width = inputs.case, _most_pages(inputs.case)
    rows = [
        [*request.block_ids[:width], *[GARBAGE] * (width - len(request.block_ids[:width]))]
        for request, _ in _seen(case)
    ]
    return ints(rows, "int32", case.layout.garbage, width=width)


def _most_pages(case: Case) -> int:
    return max(case.batch.num_live_blocks(request) for request in case.batch.requests)


def _slots_of_states(_: Any, inputs: Inputs) -> list[int]:
    """Return the slots of the states of 128 tokens that each token sees, -1 behind them."""
    case, found = inputs.case, list[int]()
    size = case.batch.block_size // 128
    for request, seen in _seen(case):
        slots = [request.block_ids[i // size] * size + i % size for i in range(seen // 128)]
        found += [*slots, *[-1] * (size * _most_pages(case) - len(slots))]
    return found


_OF_STATES = replace(
    SGLANG.extend(pages_of_tokens=Input(_pages_of_tokens)),
    outputs={
        "compressed_slots": (
            *SGLANG.outputs["compressed_slots"],
            *_of_states(4),
            *_of_states(128),
            Output(
                "c128_page_indices",
                "int32",
                "state_of_token",
                "the slots of the states that a token sees",
                shape=lambda case: (
                    case.batch.num_tokens,
                    case.batch.block_size // 128 * _most_pages(case),
                ),
                expect=_slots_of_states,
            ),
        )
    },
)
_NAMES = tuple(
    f"c{ratio}_{name}" for ratio in (4, 128) for name in ("out_loc", "positions", "lens", "lens_clamped")
)


@ENGINE.adapts(
    "sglang/kernels/ops/attention/dsv4/metadata_kernel.py",
    "_init_compressed_attn_metadata_triton",
    operation="compressed_slots",
    dialect=_OF_STATES,
    domain=_UNPADDED.having(block_sizes=(128, 256), max_tokens=512, missing_blocks=False),
)
def compressed_attn_metadata(function: Any) -> Callable[..., dict[str, Tensor]]:
    """States of 4 and of 128 tokens, where slot 0 stands for none; positions, lengths and slots of keys."""

    def launch(
        seq_lens_casual: Tensor,
        positions: Tensor,
        raw_out_loc: Tensor,
        pages_of_tokens: Tensor,
        page_size: int,
    ) -> dict[str, Tensor]:
        *found, keys = function(seq_lens_casual, positions, raw_out_loc, pages_of_tokens, page_size)
        return {**dict(zip(_NAMES, found, strict=True)), "c128_page_indices": keys}

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


def _low_ratio(ratio: int) -> tuple[Output, ...]:
    """Return the lengths of a cache with a state for ``ratio`` tokens."""

    def num_states(seen: int, _: Case) -> int:
        return max(seen // ratio, 1)

    return (
        _of_tokens(f"c{ratio}_seq_lens", "the states that a token sees, at least 1", num_states),
        _of_tokens(
            f"c{ratio}_sparse_lens",
            "at most topk of them",
            lambda seen, case: min(num_states(seen, case), case.options.selection.topk),
        ),
    )


@ENGINE.adapts(
    "sglang/kernels/ops/attention/dsv4/metadata_kernel.py",
    "build_low_ratio_metadata",
    operation="compressed_slots",
    dialect=replace(
        SGLANG,
        outputs={
            "compressed_slots": (*SGLANG.outputs["compressed_slots"], *_low_ratio(1), *_low_ratio(2)),
        },
    ),
    domain=_EVEN,
)
def low_ratio_metadata(function: Any) -> Callable[..., dict[str, Tensor]]:
    """The same for decodes, by a Triton kernel, and how many states each token sees and selects."""

    def launch(seq_lens_casual: Tensor, raw_out_loc: Tensor, dsa_index_topk: int) -> dict[str, Tensor]:
        found = function(seq_lens_casual, raw_out_loc, dsa_index_topk)._asdict()
        return {name: values for name, values in found.items() if "page_indices" not in name}

    return launch
