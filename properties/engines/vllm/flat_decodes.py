"""Decodes of several tokens, flattened to decodes of one: the keys of each token."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch

from cumae.properties.engines.vllm.engine import ENGINE, STEPS

Tensor = torch.Tensor
_INDEXER = "vllm/v1/attention/backends/mla/indexer.py"
_BUILDER = "DeepseekV32IndexerMetadataBuilder"
_FLAT = STEPS.having(phases=("decode",), min_tokens=1)


@ENGINE.adapts(
    "vllm/v1/attention/ops/metadata.py",
    "_indexer_decode_metadata_kernel",
    operation="flat_decodes",
    domain=STEPS.having(min_tokens=1, max_tokens=512, missing_blocks=False),
)
def indexer_decode_metadata(kernel: Any) -> Callable[..., None]:
    """By a program for each token; behind the tokens of the step, 256 entries for each program."""

    def launch(
        query_start_loc: Tensor,
        seq_lens: Tensor,
        block_table: Tensor,
        num_reqs_padded: int,
        num_tokens_padded: int,
        decode_seq_lens: Tensor,
    ) -> None:
        rows, width = max(num_tokens_padded, num_reqs_padded), block_table.shape[1]
        table = block_table.new_zeros(rows, width)
        empty = [torch.empty(rows, dtype=torch.int32, device=seq_lens.device) for _ in range(3)]
        lists = (decode_seq_lens, table, *empty)
        counts = (num_reqs_padded, num_tokens_padded, num_tokens_padded)
        strides = (block_table.stride(0), table.stride(0))
        kernel[(rows,)](query_start_loc, seq_lens, block_table, *lists, *counts, *strides, width)

    return launch


@ENGINE.adapts(
    "vllm/v1/attention/backends/mla/rocm_aiter_mla_sparse.py",
    "generate_sparse_seqlen_triton",
    operation="flat_decodes",
    domain=STEPS.having(min_tokens=1),
)
def generate_sparse_seqlen_by_token(function: Any) -> Callable[..., dict[str, Tensor]]:
    """min(position + 1, topk) of each token, 0 on padding."""

    def launch(
        seq_lens: Tensor,
        query_start_loc: Tensor,
        NUM_TOPK_TOKENS: int,
        num_tokens_padded: int,
        max_query_len: int,
    ) -> dict[str, Tensor]:
        lens = function(seq_lens, query_start_loc, NUM_TOPK_TOKENS, num_tokens_padded, max_query_len)
        return {"sparse_seqlen": lens}

    return launch


@ENGINE.adapts(
    _INDEXER,
    "PrepareUniformDecodeKernel",
    operation="flat_decodes",
    domain=_FLAT.having(padding="none", empty_requests=False, uniform_decodes=True, max_tokens=256),
)
def prepare_uniform_decode(kind: Callable[[], Any]) -> Callable[..., None]:
    """Decodes that all have the same number of tokens, without padding; a program for each token."""
    kernel = kind()

    def launch(
        seq_lens: Tensor, block_table: Tensor, num_tokens: int, max_query_len: int, decode_seq_lens: Tensor
    ) -> None:
        table = block_table.new_empty(num_tokens, block_table.shape[1])
        lens = torch.empty_like(decode_seq_lens)
        kernel(seq_lens, decode_seq_lens, block_table, table, lens, num_tokens, max_query_len)

    return launch


def builder(decode_seq_lens: Tensor, width: int) -> SimpleNamespace:
    """Return a stand-in for the builder, whose buffers are as long as the step."""
    count, like = decode_seq_lens.numel(), decode_seq_lens
    return SimpleNamespace(
        vllm_config=SimpleNamespace(speculative_config=None),
        supports_varlen=True,  # no kernel for decodes of one length
        decode_seq_lens_buffer=decode_seq_lens,
        global_decode_seq_lens_buffer=decode_seq_lens,
        arange_buffer=torch.arange(count, dtype=torch.int32, device=like.device),
        expanded_block_table_buffer=like.new_empty(count, width),
        decode_lens_buffer=like.new_empty(count),
    )


@ENGINE.adapts(_INDEXER, f"{_BUILDER}._prepare_decode_tensors", operation="flat_decodes", domain=_FLAT)
def prepare_decode_tensors(method: Any) -> Callable[..., None]:
    """Decodes of any number of tokens, in torch, with padding."""

    def launch(
        seq_lens: Tensor,
        block_table: Tensor,
        query_start_loc: Tensor,
        num_reqs_padded: int,
        num_tokens_padded: int,
        max_query_len: int,
        decode_seq_lens: Tensor,
    ) -> None:
        lens = query_start_loc.diff()
        method(
            builder(decode_seq_lens, block_table.shape[1]),
            seq_lens,
            block_table[:num_reqs_padded],
            lens,
            lens.cpu(),
            query_start_loc[:-1],
            num_reqs_padded,
            num_tokens_padded,
            False,
            1,
            max_query_len,
        )

    return launch


@ENGINE.adapts(
    _INDEXER,
    f"{_BUILDER}._prepare_global_decode_seq_lens",
    operation="flat_decodes",
    domain=_FLAT.having(verify_steps=True),
)
def prepare_global_decode_seq_lens(method: Any) -> Callable[..., None]:
    """The lengths on all ranks, in torch, with padding; decodes have more than one token."""

    def launch(
        seq_lens: Tensor,
        query_start_loc: Tensor,
        num_tokens_padded: int,
        max_query_len: int,
        decode_seq_lens: Tensor,
    ) -> None:
        lens = query_start_loc.diff()
        shape = (query_start_loc[:-1], num_tokens_padded, False, max_query_len)
        method(builder(decode_seq_lens, 1), seq_lens, lens, lens.cpu(), *shape)

    return launch
