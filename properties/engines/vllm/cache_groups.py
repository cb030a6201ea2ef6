"""Slots of windows, of compressed states and of rings."""

from collections.abc import Callable
from typing import Any

import torch

from cumae.oracle import Inputs
from cumae.properties.dialects import VLLM, Input, Ints
from cumae.properties.dialects.held import in_table, ints
from cumae.properties.engines.vllm.engine import ENGINE, SMALL, STEPS

Tensor = torch.Tensor
_WINDOWS = (1, 2, 3, 4, 16, 127, 128, 129, 512, 1024)
_GRANTED = {"missing_blocks": False, "min_tokens": 1}


@ENGINE.adapts(
    "vllm/v1/attention/backends/mla/sparse_swa.py",
    "_compute_swa_indices_and_lens_kernel",
    operation="window_slots",
    domain=SMALL.having(window=_WINDOWS, **_GRANTED, strided=True, views=("swa_indices",), far_rows=False),
)
def swa_indices_and_lens(kernel: Any) -> Callable[..., None]:
    """Windows of a step without images or replayed tokens; the first token and the others in turn.

    A table has fewer than 2^31 entries.
    """

    def launch(
        window_size: int,
        index_width: int,
        query_start_loc: Tensor,
        seq_lens: Tensor,
        token_to_req_indices: Tensor,
        is_valid_token: Tensor,
        block_table: Tensor,
        block_size: int,
        replay_start: Tensor,
        swa_indices: Tensor,
        swa_lens: Tensor,
    ) -> None:
        step = (query_start_loc, seq_lens, token_to_req_indices, is_valid_token)
        table = (block_table, block_table.stride(0), block_size, replay_start)
        sizes = (window_size, index_width, replay_start, replay_start)
        how = {"HAS_IMAGE": False, "TRITON_BLOCK_SIZE": 1024}
        for first, lens in ((0, swa_lens[:1]), (1, swa_lens[1:])):
            rows = (swa_indices[first:], swa_indices.stride(0), lens)
            kernel[(len(lens),)](*rows, *sizes, *step, *table, first, **how)

    return launch


@ENGINE.adapts(
    "vllm/models/deepseek_v41/amd/ops/swa_decode_meta.py",
    "launch",
    operation="window_slots",
    domain=SMALL.having(
        window=_WINDOWS[:-1],
        min_window_columns=(1, 64, 128, 512),
        phases=("decode",),
        max_requests=16,
        max_tokens=32,
        max_query_len=8,
        **_GRANTED,
    ),
)
def swa_of_decodes(function: Any) -> Callable[..., None]:
    """One program for a small batch of decodes, which lists the slots in a second form too.

    The program holds all rows at once. Rows of 2,048 columns do not fit into the shared memory of an H100.
    """

    def launch(
        slot_mapping: Tensor,
        query_start_loc: Tensor,
        seq_lens: Tensor,
        token_to_req_indices: Tensor,
        block_table: Tensor,
        replay_start: Tensor,
        window_size: int,
        block_size: int,
        swa_indices: Tensor,
        swa_lens: Tensor,
    ) -> None:
        count, device = len(swa_lens), swa_lens.device
        function(
            slot_mapping[:count],
            torch.empty(count, dtype=torch.bool, device=device),
            swa_indices,
            swa_lens,
            torch.empty(max(swa_indices.numel(), 1), dtype=torch.int32, device=device),
            torch.empty(count + 1, dtype=torch.int32, device=device),
            query_start_loc,
            seq_lens,
            token_to_req_indices,
            block_table,
            replay_start,
            count,
            window_size,
            block_size,
        )

    return launch


@ENGINE.adapts(
    "vllm/v1/attention/backends/mla/compressor_utils.py",
    "get_compressed_slot_mapping",
    operation="compressed_slots",
    domain=STEPS.having(missing_blocks=False),
)
def compressed_slot_mapping(function: Any) -> Callable[..., None]:
    """States of a step, on a rank, in a buffer that is cleared first."""

    def launch(
        num_tokens: int,
        slot_mapping: Tensor,
        query_start_loc: Tensor,
        seq_lens: Tensor,
        block_table: Tensor,
        block_size: int,
        compress_ratio: int,
        dcp_world_size: int,
        cp_kv_cache_interleave_size: int,
        dcp_rank: int,
        compressed_slot_mapping: Tensor,
    ) -> None:
        function(
            num_tokens,
            slot_mapping,
            query_start_loc,
            seq_lens,
            block_table[: len(seq_lens)],
            block_size,
            compress_ratio,
            compressed_slot_mapping,
            dcp_world_size,
            cp_kv_cache_interleave_size,
        )

    return launch


def _ring_table(inputs: Inputs) -> Ints:
    """Return the table with the null block 0 for each missing block, as runners fill it; it has a column."""
    layout, live = inputs.case.layout, len(inputs.case.batch.requests)
    table = [
        [0 if b >= live or entry == -1 else entry for entry in row or [-1]]
        for b, row in enumerate(inputs["block_table"])
    ]
    held = ints(table, "int32", layout.garbage, width=len(table[0]) if table else 1)
    return in_table(held, layout)


RINGS = VLLM.extend(ring_table=Input(_ring_table, ("missing_blocks",)), own_slots="slot_mapping")


@ENGINE.adapts(
    "vllm/v1/attention/backends/mla/indexer.py",
    "compute_kpool_tail_slot_mapping",
    operation="ring_slots",
    dialect=RINGS,
    domain=STEPS,
)
def kpool_tail_slots(function: Any) -> Callable[..., None]:
    """Rings of the indexer's pools; padding keeps what the step's own slots say."""

    def launch(
        own_slots: Tensor,
        ring_table: Tensor,
        query_start_loc: Tensor,
        positions: Tensor,
        num_tokens: int,
        num_reqs: int,
        capacity: int,
        slot_mapping: Tensor,
    ) -> None:
        rest = (query_start_loc, positions, num_tokens, num_reqs, capacity)
        function(own_slots, ring_table, *rest, out=slot_mapping)

    return launch


@ENGINE.adapts(
    "vllm/models/deepseek_v41/compressor.py",
    "_ring_slot_mapping_kernel",
    operation="ring_slots",
    dialect=RINGS,
    domain=STEPS.having(min_tokens=1),
)
def ring_slot_mapping(kernel: Any) -> Callable[..., None]:
    """Rings of a compressor's open groups."""

    def launch(
        ring_table: Tensor,
        token_to_req_indices: Tensor,
        positions: Tensor,
        num_tokens: int,
        capacity: int,
        slot_mapping: Tensor,
    ) -> None:
        kernel[(-(-len(slot_mapping) // 256),)](
            slot_mapping,
            ring_table,
            ring_table.stride(0),
            token_to_req_indices,
            positions,
            num_tokens,
            len(slot_mapping),
            CAPACITY=capacity,
            BLOCK=256,
        )

    return launch


@ENGINE.adapts(
    "vllm/models/step5/nvidia/csa_tail_ring.py",
    "_ring_metadata_kernel",
    operation="ring_slots",
    dialect=RINGS,
    domain=STEPS.having(min_tokens=1, max_query_len=8, ring_capacity=(8, 64, 127, 256)),
)
def csa_tail_ring(kernel: Any) -> Callable[..., None]:
    """Rings of the last tokens; no chunk here is longer than a ring, whose older tokens get no slot."""

    def launch(
        ring_table: Tensor,
        token_to_req_indices: Tensor,
        positions: Tensor,
        seq_lens: Tensor,
        query_start_loc: Tensor,
        num_reqs: int,
        num_tokens: int,
        capacity: int,
        slot_mapping: Tensor,
    ) -> None:
        kernel[(-(-len(slot_mapping) // 256),)](
            torch.empty_like(slot_mapping),
            slot_mapping,
            ring_table,
            ring_table.stride(0),
            token_to_req_indices,
            positions,
            seq_lens,
            query_start_loc,
            num_reqs,
            num_tokens,
            len(slot_mapping),
            CAPACITY=capacity,
            ROWS_PER_BLOCK=capacity,
            BLOCK=256,
        )

    return launch
