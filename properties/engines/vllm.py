"""vLLM's metadata functions under its dialect."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from cumae.oracle import LOGITS_KINDS, Case, Inputs
from cumae.properties.cases.domain import Domain
from cumae.properties.dialects import VLLM
from cumae.properties.dialects.dialect import Input
from cumae.properties.dialects.held import Ints, ints
from cumae.properties.engines.adapter import Engine
from cumae.properties.operations.router import router

Tensor = torch.Tensor
ENGINE = Engine("vllm", "vllm", ("0.33.0",))
_STEPS = Domain(min_requests=1, max_requests=1024, strided=False, captured=False)
_SMALL = _STEPS.having(large_slots=False)
_UNPADDED = _STEPS.having(padding="none")


_NEW = _SMALL.having(padding="none", min_tokens=1)


def _rows(case: Case) -> Any:
    """Return the state row of each request: the table's rows are in the requests' order."""
    return np.arange(len(case.batch.requests), dtype=np.int32)


def _contexts_of_decodes(case: Case) -> Any:
    return np.array([request.context_len - 1 for request in case.batch.requests], dtype=np.int64)


_STARTS = VLLM.extend(starts="query_start_loc")
_V2 = _STARTS.extend(idx_mapping=_rows)
_DRAFTS = VLLM.extend(previous_positions=_contexts_of_decodes)


@ENGINE.adapts(
    "vllm/v1/worker/block_table.py", "ComputeSlotMappingKernel", operation="slot_mapping", domain=_STEPS
)
def compute_slot_mapping(kind: Callable[[], Any]) -> Callable[..., None]:
    """Runner V1: slots of a step, padding included."""
    kernel = kind()

    def launch(
        num_reqs: int,
        num_tokens: int,
        query_start_loc: Tensor,
        positions: Tensor,
        block_table: Tensor,
        block_size: int,
        dcp_world_size: int,
        dcp_rank: int,
        cp_kv_cache_interleave_size: int,
        slot_mapping: Tensor,
    ) -> None:
        kernel(
            num_reqs,
            num_tokens,
            slot_mapping.numel(),
            query_start_loc,
            positions,
            block_table,
            block_table.stride(0),
            slot_mapping,
            block_size,
            dcp_world_size,
            dcp_rank,
            cp_kv_cache_interleave_size,
        )

    return launch


@ENGINE.adapts(
    "vllm/v1/worker/gpu/block_table.py",
    "_compute_slot_mappings_kernel",
    operation="slot_mapping",
    dialect=_V2,
    domain=_SMALL,
)
def compute_slot_mappings_of_groups(kernel: Any) -> Callable[..., None]:
    """Runner V2: slots of each cache group, whose table is found through a tensor of addresses."""

    def launch(
        idx_mapping: Tensor,
        num_reqs: int,
        query_start_loc: Tensor,
        positions: Tensor,
        block_table: Tensor,
        block_size: int,
        dcp_world_size: int,
        dcp_rank: int,
        cp_kv_cache_interleave_size: int,
        slot_mapping: Tensor,
    ) -> None:
        def on_device(value: Any, dtype: torch.dtype) -> Tensor:
            return torch.tensor([value], dtype=dtype, device=positions.device)

        kernel[(1, num_reqs + 1)](
            slot_mapping.numel(),
            idx_mapping,
            query_start_loc,
            positions,
            on_device(block_table.data_ptr(), torch.uint64),
            on_device(block_table.stride(0), torch.int64),
            on_device(block_size, torch.int32),
            on_device(True, torch.bool),
            on_device(True, torch.bool),
            slot_mapping.view(1, -1),
            slot_mapping.numel(),
            dcp_rank,
            CP_SIZE=dcp_world_size,
            CP_INTERLEAVE=cp_kv_cache_interleave_size,
            PAD_ID=-1,
            TRITON_BLOCK_SIZE=1024,
        )

    return launch


@ENGINE.adapts(
    "vllm/v1/worker/gpu/input_batch.py",
    "prepare_pos_seq_lens",
    operation="position_ids",
    dialect=_V2,
    domain=_STEPS.having(padding="untouched"),
)
def prepare_pos_seq_lens(function: Any) -> Callable[..., None]:
    """Runner V2: positions; padded ones are left as they are."""

    def launch(
        idx_mapping: Tensor,
        query_start_loc: Tensor,
        num_computed_tokens: Tensor,
        positions: Tensor,
        num_reqs_padded: int,
    ) -> None:
        seq_lens = torch.empty(num_reqs_padded, dtype=torch.int32, device=positions.device)
        function(idx_mapping, query_start_loc, num_computed_tokens, positions, seq_lens)

    return launch


@ENGINE.adapts(
    "vllm/v1/worker/gpu/input_batch.py",
    "expand_idx_mapping",
    operation="sequence_layout",
    dialect=_V2,
    domain=_UNPADDED,
)
def expand_idx_mapping(function: Any) -> Callable[..., dict[str, Tensor]]:
    """Runner V2: the request of each logit; every token has one here."""

    def launch(idx_mapping: Tensor, starts: Tensor, num_tokens: int, max_query_len: int) -> dict[str, Tensor]:
        return {"req_id_per_token": function(idx_mapping, num_tokens, starts, max(max_query_len, 1))[0]}

    return launch


@ENGINE.adapts(
    "vllm/v1/attention/ops/metadata.py",
    "compute_token_to_req_indices",
    operation="sequence_layout",
    dialect=_STARTS,
    domain=_STEPS,
)
def compute_token_to_req_indices(function: Any) -> Callable[..., None]:
    """The request of each token, 0 on padding."""

    def launch(starts: Tensor, num_tokens: int, num_tokens_padded: int, req_id_per_token: Tensor) -> None:
        if num_tokens_padded:
            function(starts, req_id_per_token, num_tokens, num_tokens_padded)

    return launch


@ENGINE.adapts(
    "vllm/v1/sample/rejection_sampler.py",
    "expand_kernel",
    operation="sequence_layout",
    dialect=_STARTS,
    domain=_UNPADDED,
)
def expand_kernel(kernel: Any) -> Callable[..., None]:
    """A value of each request for each of its draft tokens; the request's number here."""

    def launch(starts: Tensor, num_reqs: int, max_query_len: int, req_id_per_token: Tensor) -> None:
        values = torch.arange(num_reqs, dtype=torch.int32, device=starts.device)
        width = 1 << max(max_query_len - 1, 0).bit_length()
        kernel[(num_reqs,)](req_id_per_token, values, starts[1:], -1, -1, MAX_NUM_TOKENS=width)

    return launch


@ENGINE.adapts(
    "vllm/v1/spec_decode/utils.py",
    "eagle_step_slot_mapping_metadata_kernel",
    operation="slot_mapping",
    dialect=_DRAFTS,
    domain=_SMALL.having(phases=("decode",), max_query_len=1, empty_requests=False),
)
def eagle_step_slots(kernel: Any) -> Callable[..., None]:
    """The slot of the next token of each request, from the position of the last one."""

    def launch(
        previous_positions: Tensor,
        block_table: Tensor,
        num_reqs: int,
        num_computed_tokens: Tensor,
        block_size: int,
        slot_mapping: Tensor,
    ) -> None:
        kernel[(slot_mapping.numel(),)](
            previous_positions,
            block_table,
            block_table.stride(0),
            num_computed_tokens.clone(),
            torch.empty_like(previous_positions),
            slot_mapping,
            block_size=block_size,
            max_model_len=2**30,
            n_blocks_per_req=block_table.shape[1],
            PAD_ID=-1,
            batch_size=num_reqs,
        )

    return launch


@ENGINE.adapts(
    "vllm/v1/spec_decode/utils.py", "compute_new_slot_mapping", operation="slot_mapping", domain=_NEW
)
def compute_new_slot_mapping(function: Any) -> Callable[..., Tensor]:
    """Slots of extended queries, none extended or rejected here."""

    def launch(
        query_start_loc: Tensor,
        block_table: Tensor,
        num_reqs: int,
        positions: Tensor,
        num_tokens: int,
        block_size: int,
    ) -> Tensor:
        lens = query_start_loc[1:] - query_start_loc[:-1]
        step = SimpleNamespace(
            block_table_tensor=block_table[:num_reqs],
            query_start_loc=query_start_loc,
            naive_query_lens=lambda: lens,
        )
        rejected = torch.zeros(num_tokens, dtype=torch.bool, device=positions.device)
        slots: Tensor = function(step, positions[:num_tokens], rejected, block_size, 0, 2**30)
        return slots

    return launch


@ENGINE.adapts(
    "vllm/v1/attention/backends/mla/indexer.py",
    "BuildPrefillChunkMetadataKernel",
    operation="causal_windows",
    domain=Domain(max_requests=1024, captured=False),
)
def build_prefill_chunk_metadata(kind: Callable[[], Any]) -> Callable[..., None]:
    """Windows of the prefill chunk of the sparse indexer, compressed and by rank."""
    kernel = kind()

    def launch(
        prefill_query_start_loc: Tensor,
        uncompressed_seq_lens: Tensor,
        cu_seq_lens: Tensor,
        local_cu_seq_lens: Tensor,
        num_prefills: int,
        num_prefill_tokens: int,
        compress_ratio: int,
        dcp_world_size: int,
        dcp_rank: int,
        cp_kv_cache_interleave_size: int,
        cu_seqlen_ks: Tensor,
        cu_seqlen_ke: Tensor,
    ) -> None:
        if num_prefills:
            kernel(
                prefill_query_start_loc,
                uncompressed_seq_lens,
                cu_seq_lens,
                local_cu_seq_lens,
                torch.empty(int(cu_seq_lens[-1]), dtype=torch.int32, device=cu_seq_lens.device),
                cu_seqlen_ks,
                cu_seqlen_ke,
                0,
                num_prefill_tokens,
                dcp_rank,
                dcp_world_size,
                cp_kv_cache_interleave_size,
                num_reqs=num_prefills,
                COMPRESS_RATIO=compress_ratio,
            )

    return launch


def _tile(topk: int) -> int:
    """Return the largest power of two that divides the columns, 128 at most: vLLM's tiles."""
    return min(topk & -topk, 128)


_SELECTED = _SMALL.having(min_tokens=1)
_SPARSE = "vllm/v1/attention/backends/mla/sparse_utils.py"


@ENGINE.adapts(
    _SPARSE, "triton_convert_req_index_to_global_index", operation="topk_to_slots", domain=_SELECTED
)
def convert_req_index_to_global_index(function: Any) -> Callable[..., Tensor]:
    """Selected positions to slots, or to rows of the prefill workspace."""

    def launch(
        req_id: Tensor,
        block_table: Tensor,
        token_indices: Tensor,
        BLOCK_SIZE: int,
        NUM_TOPK_TOKENS: int,
        HAS_PREFILL_WORKSPACE: bool,
        prefill_workspace_request_ids: Tensor | None,
        prefill_workspace_starts: Tensor | None,
    ) -> Tensor:
        found: Tensor = function(
            req_id,
            block_table,
            token_indices,
            BLOCK_SIZE=BLOCK_SIZE,
            NUM_TOPK_TOKENS=NUM_TOPK_TOKENS,
            BLOCK_N=_tile(NUM_TOPK_TOKENS),
            HAS_PREFILL_WORKSPACE=HAS_PREFILL_WORKSPACE,
            prefill_workspace_request_ids=prefill_workspace_request_ids,
            prefill_workspace_starts=prefill_workspace_starts,
        )
        return found

    return launch


@ENGINE.adapts(
    _SPARSE, "triton_convert_req_index_to_global_index", operation="compact_topk_slots", domain=_SELECTED
)
def convert_and_count(function: Any) -> Callable[..., Any]:
    """The same, the valid ones of each row in front, and their number."""

    def launch(
        req_id: Tensor, block_table: Tensor, token_indices: Tensor, BLOCK_SIZE: int, NUM_TOPK_TOKENS: int
    ) -> Any:
        return function(
            req_id,
            block_table,
            token_indices,
            BLOCK_SIZE=BLOCK_SIZE,
            NUM_TOPK_TOKENS=NUM_TOPK_TOKENS,
            BLOCK_N=_tile(NUM_TOPK_TOKENS),
            return_valid_counts=True,
        )

    return launch


@ENGINE.adapts(
    _SPARSE, "triton_filter_and_convert_dcp_index", operation="compact_topk_slots", domain=_SELECTED
)
def filter_and_convert_dcp_index(function: Any) -> Callable[..., Any]:
    """Slots of a rank, the valid ones in front, and their number."""
    return _of_rank(function, return_valid_counts=True)


@ENGINE.adapts(_SPARSE, "triton_filter_and_convert_dcp_index", operation="topk_to_slots", domain=_SELECTED)
def filter_dcp_index_in_place(function: Any) -> Callable[..., Any]:
    """Slots of a rank, each where its position was, -1 for those of other ranks."""
    return _of_rank(function, compact_valid_to_front=False)


def _of_rank(function: Any, **how: bool) -> Callable[..., Any]:
    def launch(
        req_id: Tensor,
        block_table: Tensor,
        token_indices: Tensor,
        dcp_size: int,
        dcp_rank: int,
        cp_kv_cache_interleave_size: int,
        BLOCK_SIZE: int,
        NUM_TOPK_TOKENS: int,
    ) -> Any:
        ranks = (dcp_size, dcp_rank, cp_kv_cache_interleave_size)
        sizes = {
            "BLOCK_SIZE": BLOCK_SIZE,
            "NUM_TOPK_TOKENS": NUM_TOPK_TOKENS,
            "BLOCK_N": _tile(NUM_TOPK_TOKENS),
        }
        return function(req_id, block_table, token_indices, *ranks, **sizes, **how)

    return launch


_PLATFORM = SimpleNamespace(
    is_cuda=lambda: False, is_xpu=lambda: False, is_rocm=lambda: False, simple_compile_backend="eager"
)
_ENVS = SimpleNamespace(VLLM_USE_FUSED_MOE_GROUPED_TOPK=False, VLLM_BATCH_INVARIANT=False)
_NONZERO = tuple(kind for kind in LOGITS_KINDS if kind not in ("nan_and_inf", "huge_and_tiny"))
"""Kinds of logits whose selected scores have a sum above 0: this router divides by it as it is."""


@ENGINE.adapts(
    "vllm/model_executor/layers/fused_moe/router/grouped_topk_router.py",
    "grouped_topk",
    operation=router(ties="any"),
    domain=_SELECTED.having(logits_dtype=("fp32",), logits_kind=_NONZERO),
    current_platform=_PLATFORM,
    envs=_ENVS,
)
def grouped_topk(function: Any) -> Callable[..., dict[str, Tensor]]:
    """The router of DeepSeek models in torch, of logits in fp32."""

    def launch(
        gating_output: Tensor,
        e_score_correction_bias: Tensor,
        topk: int,
        renormalize: bool,
        num_expert_group: int,
        topk_group: int,
        routed_scaling_factor: float,
    ) -> dict[str, Tensor]:
        weights, ids = function(
            gating_output,
            gating_output,
            topk,
            renormalize,
            num_expert_group,
            topk_group,
            "sigmoid",
            routed_scaling_factor,
            e_score_correction_bias,
        )
        return {"topk_weights": weights, "topk_ids": ids}

    return launch


@ENGINE.adapts(
    "vllm/v1/worker/gpu_model_runner.py",
    "GPUModelRunner._get_cumsum_and_arange",
    operation="position_ids",
    dialect="cumae",
    domain=_NEW.having(phases=("prefill",), max_context_len=0),
)
def cumsum_and_arange(method: Any) -> Callable[..., None]:
    """Runner V1: positions in each query, on the host; sequences have no context here."""

    def launch(query_lens: Tensor, position_ids: Tensor) -> None:
        counts, positions = query_lens.cpu().numpy(), position_ids.cpu()
        method(SimpleNamespace(arange_np=np.arange(len(positions))), counts, positions.numpy())
        position_ids.copy_(positions)

    return launch


@ENGINE.adapts(
    "vllm/models/inkling/nvidia/ops/sconv.py",
    "sconv_seq_metadata",
    operation="sequence_layout",
    dialect=_STARTS,
    domain=_STEPS,
)
def sconv_seq_metadata(function: Any) -> Callable[..., None]:
    """The request of each token for short convolutions, 0 on padding."""

    def launch(
        starts: Tensor, num_reqs: int, num_tokens: int, num_tokens_padded: int, req_id_per_token: Tensor
    ) -> None:
        first_rows = torch.empty_like(req_id_per_token)
        if num_tokens_padded:
            function(starts, num_reqs, num_tokens, req_id_per_token, first_rows, num_tokens_padded)

    return launch


def _rows_of_tokens(case: Case) -> Any:
    """Return slots that are not -1: no token is replayed."""
    return np.arange(case.batch.num_tokens, dtype=np.int64)


@ENGINE.adapts(
    "vllm/v1/attention/backends/mla/compressor_utils.py",
    "CompressedSlotMappingKernel.kernel",
    operation="slot_mapping",
    dialect=VLLM.extend(own_slots=_rows_of_tokens),
    domain=_NEW.having(large_slots=True),
)
def compressed_slots(kernel: Any) -> Callable[..., None]:
    """Slots of compressed states, one for each token here."""

    def launch(
        own_slots: Tensor,
        query_start_loc: Tensor,
        seq_lens: Tensor,
        block_table: Tensor,
        block_size: int,
        num_reqs: int,
        slot_mapping: Tensor,
    ) -> None:
        kernel[(num_reqs,)](
            slot_mapping,
            own_slots,
            query_start_loc,
            seq_lens,
            block_table,
            block_table.stride(0),
            block_size,
            1,
            1,
            COMPRESS_RATIO=1,
            PAD_ID=-1,
            TRITON_BLOCK_SIZE=1024,
        )

    return launch


def _positions_inside(inputs: Inputs) -> Ints:
    """Return the selected positions without those that the token's request does not have."""
    case, own = inputs.case, inputs["position_ids"]
    topk = case.options.selection.topk
    live = inputs["selected_positions"][: case.batch.num_tokens]
    rows = [[p if p <= own[t] else -1 for p in row] for t, row in enumerate(live)]
    rows += [[-1] * topk] * case.layout.num_padding_tokens
    return ints(rows, "int32", case.layout.garbage, width=topk)


@ENGINE.adapts(
    "vllm/models/deepseek_v4/common/ops/cache_utils.py",
    "compute_global_topk_indices_and_lens",
    operation="topk_to_slots",
    dialect=VLLM.extend(positions_inside=Input(_positions_inside, ("topk",))),
    domain=_SELECTED,
)
def compute_global_topk_indices(function: Any) -> Callable[..., Tensor]:
    """DeepSeek V4: selected positions to slots; a position past the row of the table is not promised."""

    def launch(positions_inside: Tensor, req_id: Tensor, block_table: Tensor, BLOCK_SIZE: int) -> Tensor:
        is_valid = torch.ones(len(req_id), dtype=torch.bool, device=req_id.device)
        slots: Tensor = function(positions_inside, req_id, block_table, BLOCK_SIZE, is_valid)[0]
        return slots

    return launch


@ENGINE.adapts(
    "vllm/v1/attention/ops/triton_reshape_and_cache_flash.py",
    "triton_reshape_and_cache_flash_diffkv",
    operation="cache_write",
    domain=_STEPS.having(
        min_tokens=1,
        row_format=("bf16", "fp16", "fp32"),
        latent_dims=((2, 1), (8, 4), (33, 7), (512, 64)),
    ),
    is_quantized_kv_cache=lambda kind: False,
)
def reshape_and_cache_diffkv(function: Any) -> Callable[..., None]:
    """Keys and values of different widths in one cache; the two parts of a latent row here."""

    def launch(kv_c: Tensor, k_pe: Tensor, slot_mapping: Tensor, kv_cache: Tensor) -> None:
        count = min(len(slot_mapping), len(kv_c))  # vLLM has as many of both
        parts = kv_c[:count].unsqueeze(1), k_pe[:count].view(count, 1, -1)
        scale = torch.ones(1, device=kv_c.device)
        function(*parts, kv_cache.unsqueeze(2), slot_mapping[:count], "auto", scale, scale)

    return launch
