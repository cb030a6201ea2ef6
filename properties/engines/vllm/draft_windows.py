"""Keys of draft blocks and of rings' last tokens: windows that all tokens of a request share."""

from collections.abc import Callable
from typing import Any

import torch

from cumae.oracle import Case, Inputs
from cumae.oracle.slot_mapping import slot_of
from cumae.properties.dialects import VLLM, Output
from cumae.properties.engines.pages import having
from cumae.properties.engines.vllm.cache_groups import RINGS
from cumae.properties.engines.vllm.engine import ENGINE, SMALL, STEPS

Tensor = torch.Tensor


def _width(case: Case) -> int:
    """Return the columns of a block's keys: the window, the drafts of the longest block, and some more."""
    longest = max((request.query_len for request in case.batch.requests), default=0)
    return case.options.keys.window + longest + case.layout.num_spare_columns


def _rows(case: Case) -> list[list[int]]:
    """Return the slots that each token sees: the window in front of its request's new tokens, and these."""
    window, size, found = case.options.keys.window, case.batch.block_size, list[list[int]]()
    for request in case.batch.requests:
        keys = range(max(request.context_len - window, 0), request.seq_len)
        slots = [slot_of(request.block_ids, position, size) for position in keys]
        found += [slots] * request.query_len
    return found + [[]] * case.layout.num_padding_tokens


def _padded(_: Any, inputs: Inputs) -> list[int]:
    width = _width(inputs.case)
    return [slot for row in _rows(inputs.case) for slot in row + [-1] * (width - len(row))]


@ENGINE.adapts(
    "vllm/v1/attention/backends/mla/sparse_swa.py",
    "ComputeDSparkNoncausalSWAIndicesKernel",
    operation="window_slots",
    dialect=having(
        VLLM,
        "window_slots",
        Output(
            "block_slots",
            "int32",
            "place_of_block_slots",
            "the slots of the window before the new tokens, then of all new tokens",
            follows="window_slots",
            shape=lambda case: (case.num_tokens_padded, _width(case)),
            expect=_padded,
        ),
        Output(
            "block_lens",
            "int32",
            "token",
            "how many these are",
            follows="window_lens",
            shape=lambda case: (case.num_tokens_padded,),
            expect=lambda _, inputs: [len(row) for row in _rows(inputs.case)],
        ),
    ),
    domain=SMALL.having(window=(1, 2, 3, 16, 127, 128), missing_blocks=False, min_tokens=1, max_tokens=256),
)
def noncausal_swa(kind: Callable[[], Any]) -> Callable[..., None]:
    """DSpark: the keys of a block of drafts, later drafts too; the first token and the others in turn."""
    kernel = kind()

    def launch(
        window_size: int,
        query_start_loc: Tensor,
        seq_lens: Tensor,
        token_to_req_indices: Tensor,
        is_valid_token: Tensor,
        block_table: Tensor,
        block_size: int,
        block_slots: Tensor,
        block_lens: Tensor,
    ) -> None:
        step = (query_start_loc, seq_lens, token_to_req_indices, is_valid_token, block_table, block_size)
        for first, lens in ((0, block_lens[:1]), (1, block_lens[1:])):
            rows = (block_slots[first:], lens, window_size, block_slots.shape[1])
            if len(lens):
                kernel(*rows, *step, num_tokens=len(lens), token_offset=first)

    return launch


def _last_of_ring(answer: Any, inputs: Inputs) -> list[int]:
    """Return the slots in the rings, -1 for tokens whose place a later token of the step takes."""
    case, found, row = inputs.case, list[int](answer.ring_slots), 0
    for request in case.batch.requests:
        older = max(request.query_len - case.options.ring.ring_capacity, 0)
        found[row : row + older] = [-1] * older
        row += request.query_len
    return found


LAST_SLOTS = Output("last_slots", follows="ring_slots", expect=_last_of_ring)
_LAST = having(RINGS, "ring_slots", LAST_SLOTS, starts="query_start_loc")


@ENGINE.adapts(
    "vllm/models/qwen4_exp/common/qsa_cache.py",
    "circular_qsa_slot_mapping",
    operation="ring_slots",
    dialect=_LAST,
    domain=STEPS.having(min_tokens=1),
    PAD_SLOT_ID=-1,
)
def qsa_rings_of_last_tokens(function: Any) -> Callable[..., None]:
    """Qwen 4: rings that only the last tokens of each chunk are written to; padding is cut off."""

    def launch(
        ring_table: Tensor,
        token_to_req_indices: Tensor,
        positions: Tensor,
        num_tokens: int,
        num_reqs: int,
        capacity: int,
        starts: Tensor,
        last_slots: Tensor,
    ) -> None:
        live = (token_to_req_indices[:num_tokens], positions[:num_tokens])
        function(ring_table, *live, capacity, starts[: num_reqs + 1], last_slots)

    return launch


@ENGINE.adapts(
    "vllm/models/step5/nvidia/csa_tail_ring.py",
    "_ring_metadata_kernel",
    operation="ring_slots",
    dialect=_LAST,
    domain=STEPS.having(min_tokens=1, ring_capacity=(1, 2, 8, 64, 127, 256)),
)
def csa_tail_ring_of_long_chunks(kernel: Any) -> Callable[..., None]:
    """Step 5: the same for chunks longer than a ring."""

    def launch(
        ring_table: Tensor,
        token_to_req_indices: Tensor,
        positions: Tensor,
        seq_lens: Tensor,
        starts: Tensor,
        num_reqs: int,
        num_tokens: int,
        capacity: int,
        last_slots: Tensor,
    ) -> None:
        places = torch.empty_like(last_slots)
        table = (ring_table, ring_table.stride(0), token_to_req_indices, positions, seq_lens, starts)
        counts = (num_reqs, num_tokens, len(last_slots))
        sizes = {"CAPACITY": capacity, "ROWS_PER_BLOCK": capacity, "BLOCK": 256}
        kernel[(-(-len(last_slots) // 256),)](places, last_slots, *table, *counts, **sizes)

    return launch
