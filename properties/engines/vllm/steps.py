"""Tokens, states and rows that a step takes from its prompts, states, windows and encoders."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from cumae.oracle import UNTOUCHED, Case, Inputs
from cumae.properties.dialects import VLLM, Ints, Output
from cumae.properties.dialects.held import ints
from cumae.properties.engines.pages import having
from cumae.properties.engines.vllm.engine import ENGINE, NEW, UNPADDED
from cumae.properties.engines.vllm.prompt_inputs import falling_rows

Tensor = torch.Tensor
FULL = UNPADDED.having(empty_requests=False)


@ENGINE.adapts(
    "vllm/model_executor/layers/attention/cross_attention.py",
    "_get_cross_slot_mapping",
    operation="slot_mapping",
    domain=NEW.having(phases=("prefill",), max_context_len=0, missing_blocks=False, world=(1,)),
)
def cross_slot_mapping(function: Any) -> Callable[..., Tensor]:
    """Slots of encoder tokens, which are all new."""

    def launch(seq_lens_cpu: Tensor, block_table: Tensor, block_size: int) -> Tensor:
        spec = SimpleNamespace(block_size=block_size)
        slots: Tensor = function(seq_lens_cpu.numpy(), block_table, spec, block_table.device)
        return slots

    return launch


def _in_states(case: Case, values: Sequence[Any], other: Any) -> list[Any]:
    found = [other] * (2 * len(values))
    for row, value in zip(falling_rows(case), values, strict=True):
        found[row] = value
    return found


def _computed_before(inputs: Inputs) -> Ints:
    case = inputs.case
    computed = [request.context_len for request in case.batch.requests]
    return ints(_in_states(case, computed, -1), "int32", case.layout.garbage)


def _computed_after(answer: Any, inputs: Inputs) -> list[Any]:
    count = len(inputs.case.batch.requests)
    return _in_states(inputs.case, answer.local_lens[:count], UNTOUCHED)


_COMPUTED = having(
    VLLM,
    "local_lens",
    Output(
        "computed_of_states",
        "int32",
        "state",
        "a request has computed its cached tokens and the step's; other states keep their values",
        follows="local_lens",
        shape=lambda case: (2 * len(case.batch.requests),),
        expect=_computed_after,
        before=_computed_before,
    ),
    idx_mapping=lambda case: np.array(falling_rows(case), dtype=np.int32),
)


@ENGINE.adapts(
    "vllm/v1/worker/gpu/input_batch.py",
    "post_update_num_computed_tokens",
    operation="local_lens",
    dialect=_COMPUTED,
    domain=UNPADDED.having(world=(1,)),
)
def update_num_computed_tokens(function: Any) -> Callable[..., None]:
    """Runner V2: computed tokens of the states after a step, in place."""

    def launch(idx_mapping: Tensor, computed_of_states: Tensor, query_start_loc: Tensor) -> None:
        function(idx_mapping, computed_of_states, query_start_loc)

    return launch


def _last_pages(answer: Any, _: Inputs) -> list[int]:
    return [answer.kv_indices[stop - 1] for stop in answer.kv_indptr[1:]]


LAST_PAGE = having(
    VLLM,
    "kv_indices",
    Output(
        "state_indices",
        "int32",
        "live_request",
        "the block of the request's last token",
        follows="kv_indices",
        shape=lambda case: (len(case.batch.requests), 1),
        expect=_last_pages,
    ),
)


@ENGINE.adapts(
    "vllm/v1/attention/backends/utils.py",
    "mamba_get_block_table_tensor",
    operation="kv_indices",
    dialect=LAST_PAGE,
    domain=FULL.having(strided=True, views=("seq_lens",)),
    MambaSpec=SimpleNamespace,
)
def mamba_align_block_table(function: Any) -> Callable[..., Tensor]:
    """The block with the state of each request, by a Triton kernel; without drafts it is one."""

    def launch(block_table: Tensor, seq_lens: Tensor, num_reqs: int, block_size: int) -> Tensor:
        spec = SimpleNamespace(block_size=block_size, num_speculative_blocks=0)
        blocks: Tensor = function(block_table[:num_reqs], seq_lens, spec, "align")
        return blocks

    return launch


@ENGINE.adapts(
    "vllm/v1/worker/mamba_utils.py",
    "get_aligned_state_indices_multi_group_kernel",
    operation="kv_indices",
    dialect=LAST_PAGE,
    domain=FULL,
)
def aligned_state_indices(kernel: Any) -> Callable[..., Tensor]:
    """The same for the second of two cache groups, four rows a program; tables are passed as addresses."""

    def launch(block_table: Tensor, seq_lens: Tensor, num_reqs: int, block_size: int) -> Tensor:
        found = torch.empty((2, num_reqs, 1), dtype=torch.int32, device=seq_lens.device)
        first = torch.zeros_like(block_table)
        tables = torch.tensor([first.data_ptr(), block_table.data_ptr()], device=seq_lens.device)
        strides = (block_table.stride(0), seq_lens.stride(0), *found.stride())
        sizes = {"NUM_GROUPS": 2, "BLOCK_GROUPS": 2, "NUM_STATE_SLOTS": 1, "BLOCK_STATE_SLOTS": 1}
        rows = {"CACHE_BLOCK_SIZE": block_size, "BLOCK_ROWS": 4}
        kernel[(-(-num_reqs // 4),)](tables, seq_lens, found, *strides, num_reqs, **sizes, **rows)
        return found[1]

    return launch


def _gathered(answer: Any, inputs: Inputs) -> list[int]:
    """Return the keys from the first that a request's tokens see to the last."""
    starts = inputs["cu_seqlens_q"]
    return [answer.ke[stop - 1] - answer.ks[start] for start, stop in pairwise(starts)]


@ENGINE.adapts(
    "vllm/v1/attention/backends/mla/sparse_swa.py",
    "ComputePrefillMetadataKernel",
    operation="causal_windows",
    dialect=having(
        VLLM,
        "causal_windows",
        Output(
            "prefill_gather_lens",
            "int32",
            "live_request",
            "the keys from the first that the request's tokens see to the last",
            follows="ke",
            shape=lambda case: (len(case.batch.requests),),
            expect=_gathered,
        ),
    ),
    domain=FULL.having(
        phases=("prefill",), world=(1,), compress_ratio=(1,), window=(1, 2, 3, 16, 127, 128, 129, 1024)
    ),
)
def prefill_gather_lens(kind: Callable[[], Any]) -> Callable[..., None]:
    """The keys gathered for windows, in a step of prefills; no token is replayed."""
    kernel = kind()

    def launch(
        seq_lens: Tensor,
        query_start_loc: Tensor,
        replay_start: Tensor,
        num_prefills: int,
        window_size: int,
        prefill_gather_lens: Tensor,
    ) -> None:
        kernel(prefill_gather_lens, seq_lens, query_start_loc, replay_start, num_prefills, 0, window_size)

    return launch
