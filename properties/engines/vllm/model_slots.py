"""Positions, slots and states that single models compute for themselves."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from cumae.oracle import Inputs
from cumae.properties.dialects import VLLM, Input, Ints
from cumae.properties.dialects.held import ints
from cumae.properties.engines.vllm.cache_groups import RINGS
from cumae.properties.engines.vllm.engine import ENGINE, SELECTED, STARTS, STEPS, UNPADDED
from cumae.properties.engines.vllm.steps import FULL, LAST_PAGE
from cumae.properties.running.device import can_begin_early

Tensor = torch.Tensor
_QSA = "vllm/models/qwen4_exp/common/qsa_cache.py"
_POSITIONS = "minimax_m3_query_token_positions"
_MINIMAX = "vllm/models/minimax_m3/common/sparse_attention.py"


def _owners(inputs: Inputs) -> Ints:
    """Return the request of each token, -1 on padding."""
    return ints(inputs["token_to_request"], "int32", inputs.case.layout.garbage)


_OWNERS = VLLM.extend(owners=Input(_owners))


@ENGINE.adapts(_QSA, "_logical_positions", operation="position_ids", domain=UNPADDED)
def qsa_positions(function: Any) -> Callable[..., Tensor]:
    """Qwen 4: positions from lengths and owners of the tokens."""

    def launch(
        query_start_loc: Tensor, seq_lens: Tensor, token_to_req_indices: Tensor, num_tokens: int
    ) -> Tensor:
        found: Tensor = function(query_start_loc, seq_lens, token_to_req_indices, num_tokens)
        return found.long()

    return launch


@ENGINE.adapts(
    _QSA,
    "_logical_to_physical_qsa_slots",
    operation="slot_mapping",
    dialect=_OWNERS.extend(own_table=replace(VLLM.inputs["block_table"], carries=("missing_blocks",))),
    domain=STEPS.having(world=(1,), num_padding_slots=(0,)),
    PAD_SLOT_ID=-1,
)
def qsa_slots(function: Any) -> Callable[..., Tensor]:
    """Qwen 4: slots of positions; a request of -1 and a missing block have none."""

    def launch(own_table: Tensor, owners: Tensor, positions: Tensor, block_size: int) -> Tensor:
        found: Tensor = function(own_table, owners, positions, block_size)
        return found

    return launch


@ENGINE.adapts(
    _QSA,
    "circular_qsa_slot_mapping",
    operation="ring_slots",
    dialect=RINGS.extend(owners=Input(_owners)),
    domain=STEPS,
    PAD_SLOT_ID=-1,
)
def qsa_rings(function: Any) -> Callable[..., None]:
    """Qwen 4: rings of the compressor, in a buffer that is cleared first."""

    def launch(
        ring_table: Tensor, owners: Tensor, positions: Tensor, capacity: int, slot_mapping: Tensor
    ) -> None:
        function(ring_table, owners, positions, capacity, out=slot_mapping)

    return launch


@ENGINE.adapts(
    _QSA,
    "compressed_qsa_slot_mapping",
    operation="compressed_slots",
    dialect=_OWNERS,
    domain=STEPS.having(missing_blocks=False, world=(1,)),
    PAD_SLOT_ID=-1,
)
def qsa_states(function: Any) -> Callable[..., None]:
    """Qwen 4: states of whole groups, in a buffer that is cleared first."""

    def launch(
        block_table: Tensor,
        owners: Tensor,
        positions: Tensor,
        block_size: int,
        compress_ratio: int,
        compressed_slot_mapping: Tensor,
    ) -> None:
        step = (block_table, owners, positions, block_size, compress_ratio)
        function(*step, out=compressed_slot_mapping)

    return launch


@ENGINE.adapts(_MINIMAX, _POSITIONS, operation="position_ids", domain=UNPADDED.having(min_tokens=1))
def minimax_positions(function: Any) -> Callable[..., Tensor]:
    """MiniMax M3: the position of each token."""

    def launch(query_start_loc: Tensor, num_computed_tokens: Tensor, num_tokens: int) -> Tensor:
        found: Tensor = function(query_start_loc, num_computed_tokens, num_tokens)[1]
        return found.long()

    return launch


@ENGINE.adapts(
    _MINIMAX,
    _POSITIONS,
    operation="sequence_layout",
    dialect=STARTS,
    domain=UNPADDED.having(min_tokens=1),
)
def minimax_owners(function: Any) -> Callable[..., dict[str, Tensor]]:
    """MiniMax M3: the request of each token, from the same search."""

    def launch(starts: Tensor, num_computed_tokens: Tensor, num_tokens: int) -> dict[str, Tensor]:
        found = function(starts, num_computed_tokens, num_tokens)
        return {"req_id_per_token": found[0]}

    return launch


@ENGINE.adapts(
    "vllm/models/deepseek_v4/cpu/cpu_utils.py",
    "map_local_to_global_slots_cpu",
    operation="topk_to_slots",
    domain=SELECTED.having(
        select_beyond=(False,), missing_blocks=False, world=(1,), prefill_workspace=(False,)
    ),
)
def selected_slots_on_cpu(function: Any) -> Callable[..., Tensor]:
    """DeepSeek V4 on a CPU: selected positions, all of which the table has."""

    def launch(token_indices: Tensor, req_id: Tensor, block_table: Tensor, BLOCK_SIZE: int) -> Tensor:
        found: Tensor = function(token_indices, req_id, block_table, BLOCK_SIZE)
        return found.int()

    return launch


@ENGINE.adapts(
    "vllm/models/kimi_k3/nvidia/kda_metadata.py",
    "_get_aligned_state_indices_kernel",
    operation="kv_indices",
    dialect=LAST_PAGE,
    domain=FULL.having(strided=True, views=("seq_lens",), far_rows=False),
)
def kimi_state_indices(kernel: Any) -> Callable[..., Tensor]:
    """Kimi K3: the block with the state of each request, 32 rows a program."""

    def launch(block_table: Tensor, seq_lens: Tensor, num_reqs: int, block_size: int) -> Tensor:
        found = torch.empty((num_reqs, 1), dtype=torch.int32, device=seq_lens.device)
        step = (block_table, seq_lens, found, *block_table.stride(), seq_lens.stride(0), *found.stride())
        sizes = {"CACHE_BLOCK_SIZE": block_size, "NUM_STATE_SLOTS": 1, "BLOCK_STATE_SLOTS": 1}
        kernel[(-(-num_reqs // 32),)](*step, num_reqs, **sizes, BLOCK_ROWS=32, launch_pdl=can_begin_early())
        return found

    return launch
