"""SGLang's metadata functions under its dialect; router and cache writer under the names of vLLM."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from cumae.oracle import LOGITS_KINDS, Case
from cumae.properties.cases.domain import Domain
from cumae.properties.dialects import SGLANG, VLLM
from cumae.properties.engines.adapter import Engine
from cumae.properties.operations.router import router

Tensor = torch.Tensor
ENGINE = Engine("sglang", "sglang", ("0.5.23",))
_STEPS = Domain(
    min_requests=1, min_tokens=1, max_requests=1024, strided=False, large_slots=False, captured=False
)
_EXTENDS = _STEPS.having(phases=("prefill",), padding="none")
_DECODES = _STEPS.having(phases=("decode",), max_query_len=1, empty_requests=False)


_FINITE = tuple(kind for kind in LOGITS_KINDS if kind != "nan_and_inf")


def _num_tokens(case: Case) -> int:
    return case.batch.num_tokens


def _starts(case: Case) -> Any:
    """Return where each request's new tokens begin among its tokens."""
    return np.array([request.context_len for request in case.batch.requests], dtype=np.int64)


def _stops(case: Case) -> Any:
    return np.array([request.seq_len for request in case.batch.requests], dtype=np.int64)


_TOKENS = SGLANG.extend(extend_num_tokens=_num_tokens)
_SPANS = SGLANG.extend(start_offset=_starts, end_offset=_stops, batch=lambda case: len(case.batch.requests))


@ENGINE.adapts(
    "sglang/kernels/ops/attention/position.py",
    "compute_position_triton",
    operation="position_ids",
    dialect=_TOKENS,
    domain=_EXTENDS,
)
def compute_position_triton(function: Any) -> Callable[..., Tensor]:
    """Positions of an extend."""

    def launch(extend_prefix_lens: Tensor, extend_seq_lens: Tensor, extend_num_tokens: int) -> Tensor:
        positions: Tensor = function(extend_prefix_lens, extend_seq_lens, extend_num_tokens)[0]
        return positions

    return launch


@ENGINE.adapts(
    "sglang/kernels/ops/attention/position.py",
    "compute_position_triton",
    operation="sequence_layout",
    dialect=_TOKENS,
    domain=_EXTENDS,
)
def start_locs(function: Any) -> Callable[..., dict[str, Tensor]]:
    """First rows of an extend's requests."""

    def launch(
        extend_prefix_lens: Tensor, extend_seq_lens: Tensor, extend_num_tokens: int
    ) -> dict[str, Tensor]:
        _, starts = function(extend_prefix_lens, extend_seq_lens, extend_num_tokens)
        return {"extend_start_loc": starts}

    return launch


@ENGINE.adapts(
    "sglang/srt/model_executor/forward_batch_info.py",
    "compute_position_torch",
    operation="position_ids",
    domain=_EXTENDS,
)
def compute_position_torch(function: Any) -> Callable[..., Tensor]:
    """The same in torch."""

    def launch(extend_prefix_lens: Tensor, extend_seq_lens: Tensor) -> Tensor:
        positions: Tensor = function(extend_prefix_lens, extend_seq_lens)[0]
        return positions

    return launch


@ENGINE.adapts(
    "sglang/kernels/ops/attention/clamp_position.py",
    "ClampPositionOp.forward_native",
    operation="position_ids",
    domain=_DECODES,
)
def clamp_position(method: Any) -> Callable[..., Tensor]:
    """Positions of decodes."""

    def launch(seq_lens: Tensor) -> Tensor:
        positions: Tensor = method(None, seq_lens)
        return positions

    return launch


@ENGINE.adapts(
    "sglang/kernels/ops/attention/dsa/transform_index.py",
    "transform_index_page_table_decode",
    operation="topk_to_slots",
    domain=_DECODES,
)
def transform_index_decode(function: Any) -> Callable[..., None]:
    """Selected positions of decodes to slots."""

    def launch(page_table_1: Tensor, topk_indices: Tensor, result: Tensor) -> None:
        function(page_table_1, topk_indices, result=result)

    return launch


@ENGINE.adapts(
    "sglang/kernels/ops/attention/dsa/transform_index.py",
    "transform_index_page_table_prefill",
    operation="topk_to_slots",
    domain=_EXTENDS,
)
def transform_index_prefill(function: Any) -> Callable[..., Tensor]:
    """Selected positions of an extend to slots."""

    def launch(page_table_1: Tensor, topk_indices: Tensor, extend_seq_lens_cpu: Tensor) -> Tensor:
        found: Tensor = function(page_table_1, topk_indices, extend_seq_lens_cpu.tolist())
        return found

    return launch


@ENGINE.adapts(
    "sglang/srt/layers/attention/dsa_backend.py",
    "DeepseekSparseAttnBackend._cal_indexer_k_start_end",
    operation="causal_windows",
    domain=_EXTENDS,
)
def indexer_k_start_end(method: Any) -> Callable[..., dict[str, Tensor]]:
    """Windows of an extend for the sparse indexer."""

    def launch(seq_lens: Tensor, extend_seq_lens_cpu: Tensor) -> dict[str, Tensor]:
        windows, _ = method(*_extend(seq_lens, extend_seq_lens_cpu))
        return dict(zip(("ks", "ke"), windows, strict=True))

    return launch


@ENGINE.adapts(
    "sglang/srt/layers/attention/dsa_backend.py",
    "DeepseekSparseAttnBackend._cal_indexer_k_start_end",
    operation="sequence_layout",
    domain=_EXTENDS,
)
def indexer_token_to_batch_idx(method: Any) -> Callable[..., dict[str, Tensor]]:
    """Requests of an extend's tokens, from the same method."""

    def launch(seq_lens: Tensor, extend_seq_lens_cpu: Tensor) -> dict[str, Tensor]:
        _, owners = method(*_extend(seq_lens, extend_seq_lens_cpu))
        return {"token_to_batch_idx": owners}

    return launch


def _extend(seq_lens: Tensor, extend_seq_lens_cpu: Tensor) -> tuple[SimpleNamespace, SimpleNamespace]:
    """Return what the method reads of its backend and of a forward batch."""
    mode = SimpleNamespace(is_extend_without_speculative=lambda: True, is_target_verify=lambda: False)
    batch = SimpleNamespace(
        forward_mode=mode,
        batch_size=len(seq_lens),
        seq_lens_cpu=seq_lens.cpu(),
        extend_seq_lens_cpu=extend_seq_lens_cpu.tolist(),
    )
    return SimpleNamespace(device=seq_lens.device), batch


def _lens_like(lens: Tensor) -> Callable[..., Tensor]:
    """Return what makes tensors of int32 on the device of a tensor."""
    return lambda *shape: torch.empty(shape, dtype=torch.int32, device=lens.device)


@ENGINE.adapts(
    "sglang/kernels/ops/attention/metadata.py",
    "normal_decode_set_metadata",
    operation="sequence_layout",
    domain=_DECODES,
)
def normal_decode_metadata(function: Any) -> Callable[..., None]:
    """Key lengths of decodes and their running sum, without the page table."""

    def launch(
        seq_lens: Tensor, req_to_token: Tensor, req_pool_indices: Tensor, cu_seqlens_k: Tensor
    ) -> None:
        empty, count = _lens_like(seq_lens), len(seq_lens)
        pages = (empty(count, 1), req_to_token, req_pool_indices, 1)
        function(empty(count), cu_seqlens_k, *pages, seq_lens, 0, 1, skip_page_table=True)

    return launch


@ENGINE.adapts(
    "sglang/kernels/ops/attention/dsa/metadata.py",
    "fused_dsa_decode_metadata",
    operation="sequence_layout",
    domain=_DECODES,
)
def fused_dsa_decode(function: Any) -> Callable[..., None]:
    """The same from the fused metadata of sparse attention."""

    def launch(
        seq_lens: Tensor,
        req_pool_indices: Tensor,
        req_to_token: Tensor,
        batch_size: int,
        cu_seqlens_k: Tensor,
    ) -> None:
        empty = _lens_like(seq_lens)
        longest = int(seq_lens.max())
        function(
            seq_lens,
            req_pool_indices,
            req_to_token,
            empty(batch_size),
            cu_seqlens_k,
            empty(batch_size, req_to_token.shape[1]),
            empty(batch_size),
            empty(batch_size + 1),
            None,
            batch_size,
            longest,
            2048,
            1,
        )

    return launch


_LOCS = "sglang/kernels/ops/speculative/cache_locs.py"
_NEXT = _DECODES.having(padding="none")


@ENGINE.adapts(
    _LOCS,
    "assign_extend_cache_locs",
    operation="slot_mapping",
    dialect=_SPANS,
    domain=_STEPS.having(padding="none"),
)
def assign_extend_cache_locs(kernel: Any) -> Callable[..., None]:
    """Slots of the new tokens of each request."""

    def launch(
        req_pool_indices: Tensor,
        req_to_token: Tensor,
        start_offset: Tensor,
        end_offset: Tensor,
        batch: int,
        out_cache_loc: Tensor,
    ) -> None:
        width = 1 << max(batch - 1, 0).bit_length()
        spans = (start_offset, end_offset)
        kernel[(batch,)](req_pool_indices, req_to_token, *spans, out_cache_loc, req_to_token.shape[1], width)

    return launch


@ENGINE.adapts(
    _LOCS,
    "assign_extend_cache_locs_func",
    operation="slot_mapping",
    dialect=_SPANS,
    domain=_NEXT,
    _is_cuda=True,
)
def assign_extend_cache_locs_of_one(function: Any) -> Callable[..., Tensor]:
    """The same by the launcher, one token for each request."""

    def launch(
        req_pool_indices: Tensor, req_to_token: Tensor, start_offset: Tensor, end_offset: Tensor, batch: int
    ) -> Tensor:
        where = (batch, 1, req_to_token.device)
        slots: Tensor = function(req_pool_indices, req_to_token, start_offset, end_offset, *where)
        return slots

    return launch


@ENGINE.adapts(
    _LOCS,
    "assign_extend_cache_locs_uniform_func",
    operation="slot_mapping",
    dialect=_SPANS,
    domain=_NEXT,
    _is_cuda=True,
)
def assign_extend_cache_locs_uniform(function: Any) -> Callable[..., Tensor]:
    """The same of requests that extend by the same number of tokens, 1 here."""

    def launch(req_pool_indices: Tensor, req_to_token: Tensor, start_offset: Tensor, batch: int) -> Tensor:
        where = (batch, 1, req_to_token.device)
        slots: Tensor = function(req_pool_indices, req_to_token, start_offset, *where)
        return slots

    return launch


@ENGINE.adapts(
    _LOCS,
    "assign_draft_cache_locs_contiguous_func",
    operation="slot_mapping",
    dialect=_SPANS,
    domain=_NEXT,
    _is_cpu=False,
)
def assign_draft_cache_locs(function: Any) -> Callable[..., None]:
    """Slots of draft tokens behind each request, 1 here."""

    def launch(
        req_pool_indices: Tensor, req_to_token: Tensor, start_offset: Tensor, out_cache_loc: Tensor
    ) -> None:
        function(req_pool_indices, req_to_token, start_offset, out_cache_loc, 1, 1)

    return launch


@ENGINE.adapts(
    _LOCS,
    "assign_draft_cache_locs_contiguous_func",
    operation="position_ids",
    dialect=_SPANS,
    domain=_NEXT,
    _is_cpu=False,
)
def draft_positions(function: Any) -> Callable[..., None]:
    """Their positions, from the same launch."""

    def launch(
        req_pool_indices: Tensor, req_to_token: Tensor, start_offset: Tensor, positions: Tensor
    ) -> None:
        slots = torch.empty_like(positions)
        function(req_pool_indices, req_to_token, start_offset, slots, 1, 1, positions=positions)

    return launch


@ENGINE.adapts(
    "sglang/kernels/ops/attention/metadata.py",
    "draft_extend_set_metadata",
    operation="sequence_layout",
    domain=_EXTENDS,
)
def draft_extend_metadata(function: Any) -> Callable[..., None]:
    """Running sum of the new tokens of an extend, from the fused metadata of drafts."""

    def launch(
        seq_lens: Tensor,
        extend_seq_lens: Tensor,
        req_to_token: Tensor,
        req_pool_indices: Tensor,
        cu_seqlens_q: Tensor,
    ) -> None:
        empty = _lens_like(seq_lens)
        count, width = len(seq_lens), req_to_token.shape[1]
        outputs = (empty(count), empty(count + 1), cu_seqlens_q, empty(count, width))
        function(*outputs, req_to_token, req_pool_indices, seq_lens, extend_seq_lens, 1)

    return launch


def _free_pages(case: Case) -> Any:
    """Return the pages that the step takes, in the order of its requests."""
    size = case.batch.block_size
    spans = [(-(-r.context_len // size), -(-r.seq_len // size), r.block_ids) for r in case.batch.requests]
    return np.array([page for start, stop, ids in spans for page in ids[start:stop]], dtype=np.int64)


def _last_locs(case: Case) -> Any:
    """Return the slot of each request's last cached token, -1 without one."""
    size, found = case.batch.block_size, []
    for request in case.batch.requests:
        page, offset = divmod(request.context_len - 1, size)
        found.append(request.block_ids[page] * size + offset if request.context_len else -1)
    return np.array(found, dtype=np.int64)


_PAGES = VLLM.extend(pre_lens=_starts, post_lens=_stops, last_locs=_last_locs, free_pages=_free_pages)
_TAKES = Domain(
    block_sizes=(1, 2, 4, 16, 64),
    min_requests=1,
    max_requests=1024,
    rowless_requests=False,
    padding="none",
    captured=False,
)
_ALLOCATOR = "sglang/kernels/ops/memory/allocator.py"


@ENGINE.adapts(_ALLOCATOR, "alloc_extend_kernel", operation="slot_mapping", dialect=_PAGES, domain=_TAKES)
def alloc_extend(kernel: Any) -> Callable[..., None]:
    """Slots that an extend takes: the rest of each last page, then free pages."""

    def launch(
        pre_lens: Tensor,
        post_lens: Tensor,
        last_locs: Tensor,
        free_pages: Tensor,
        num_reqs: int,
        block_size: int,
        slot_mapping: Tensor,
    ) -> None:
        width = 1 << max(num_reqs - 1, 0).bit_length()
        lens = (pre_lens, post_lens)
        kernel[(num_reqs,)](*lens, last_locs, free_pages, slot_mapping, width, block_size)

    return launch


@ENGINE.adapts(
    _ALLOCATOR,
    "alloc_decode_kernel",
    operation="slot_mapping",
    dialect=_PAGES,
    domain=_TAKES.having(phases=("decode",), max_query_len=1, empty_requests=False),
)
def alloc_decode(kernel: Any) -> Callable[..., None]:
    """Slots that decodes take."""

    def launch(
        post_lens: Tensor,
        last_locs: Tensor,
        free_pages: Tensor,
        num_reqs: int,
        block_size: int,
        slot_mapping: Tensor,
    ) -> None:
        width = 1 << max(num_reqs - 1, 0).bit_length()
        kernel[(num_reqs,)](post_lens, last_locs, free_pages, slot_mapping, width, block_size)

    return launch


@ENGINE.adapts(
    "sglang/srt/model_executor/forward_batch_deepseek_mha_mixin.py",
    "ForwardBatchDeepSeekMHAMixin.get_prefix_chunk_seq_lens",
    operation="chunked_context",
    domain=_EXTENDS,
)
def prefix_chunks(method: Any) -> Callable[..., dict[str, Tensor]]:
    """Starts and lengths of the chunks of cached prefixes."""

    def launch(
        batch_size: int, extend_prefix_lens: Tensor, num_prefix_chunks: int, prefix_chunk_len: int
    ) -> dict[str, Tensor]:
        batch = SimpleNamespace(batch_size=batch_size)
        starts, lens = method(batch, extend_prefix_lens, num_prefix_chunks, prefix_chunk_len)
        return {"prefix_chunk_starts": starts, "prefix_chunk_seq_lens": lens}

    return launch


@ENGINE.adapts(
    "sglang/srt/layers/moe/topk.py",
    "biased_grouped_topk_impl",
    operation=router(ties="any"),
    dialect="vllm",
    domain=_STEPS.having(logits_dtype=("fp32",), logits_kind=_FINITE),
)
def biased_grouped_topk(function: Any) -> Callable[..., dict[str, Tensor]]:
    """The router of DeepSeek models in torch, of logits in fp32."""
    return _router(function)


@ENGINE.adapts(
    "sglang/srt/layers/moe/topk.py",
    "biased_grouped_topk_impl",
    operation=router(ties="any", rounding="bf16"),
    dialect="vllm",
    domain=_STEPS.having(logits_dtype=("bf16",), logits_kind=_FINITE),
)
def biased_grouped_topk_in_bf16(function: Any) -> Callable[..., dict[str, Tensor]]:
    """The same of logits in bf16, in which the scores are rounded."""
    return _router(function)


def _router(function: Any) -> Callable[..., dict[str, Tensor]]:
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
            e_score_correction_bias,
            topk,
            renormalize,
            num_expert_group,
            topk_group,
            routed_scaling_factor=routed_scaling_factor,
            apply_routed_scaling_factor_on_output=True,
        )
        return {"topk_weights": weights, "topk_ids": ids}

    return launch


@ENGINE.adapts(
    "sglang/srt/layers/moe/topk.py",
    "fused_topk_torch_native",
    operation=router(ties="any"),
    dialect="vllm",
    domain=_STEPS.having(
        logits_dtype=("fp32",),
        logits_kind=_FINITE,
        router_shapes=((4, 1, 1, 3), (64, 1, 1, 6), (384, 1, 1, 8)),
    ),
)
def fused_topk_in_torch(function: Any) -> Callable[..., dict[str, Tensor]]:
    """The router without groups in torch; whoever calls it scales the weights."""

    def launch(
        gating_output: Tensor,
        e_score_correction_bias: Tensor,
        topk: int,
        renormalize: bool,
        routed_scaling_factor: float,
    ) -> dict[str, Tensor]:
        logits = (gating_output, gating_output)
        weights, ids = function(*logits, topk, renormalize, e_score_correction_bias, "sigmoid")
        return {"topk_weights": weights * routed_scaling_factor, "topk_ids": ids.int()}

    return launch


def _platform(*, has_triton: bool) -> SimpleNamespace:
    return SimpleNamespace(capabilities=SimpleNamespace(supports_triton=has_triton))


def _write_rows(function: Any) -> Callable[..., None]:
    def launch(kv_c: Tensor, k_pe: Tensor, slot_mapping: Tensor, kv_cache: Tensor) -> None:
        rows = kv_cache.view(-1, 1, kv_cache.shape[-1])
        count = min(len(slot_mapping), len(kv_c))  # SGLang has as many of both
        if rows.numel():  # a pool has rows
            function(rows, slot_mapping[:count], kv_c[:count], k_pe[:count], reserved_skip_index=-1)

    return launch


_ROWS = _STEPS.having(row_format=("bf16", "fp16", "fp32"), latent_dims=((2, 1), (8, 4), (33, 7), (512, 64)))
_WRITER = "sglang/kernels/ops/kvcache/mla_buffer.py"


@ENGINE.adapts(
    _WRITER,
    "set_mla_kv_buffer_triton",
    operation="cache_write",
    dialect="vllm",
    domain=_ROWS,
    current_platform=_platform(has_triton=True),
    is_arch_support_pdl=lambda: False,
)
def set_mla_kv_buffer(function: Any) -> Callable[..., None]:
    """Latent rows to their slots, by Triton."""
    return _write_rows(function)


@ENGINE.adapts(
    _WRITER,
    "set_mla_kv_buffer_triton",
    operation="cache_write",
    dialect="vllm",
    domain=_ROWS,
    current_platform=_platform(has_triton=False),
)
def set_mla_kv_buffer_in_torch(function: Any) -> Callable[..., None]:
    """The same where the platform has no Triton."""
    return _write_rows(function)
