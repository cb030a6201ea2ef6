"""Pages of each request's keys in one list, for FlashInfer and AITER."""

from collections.abc import Callable
from itertools import accumulate
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from cumae.oracle import Case
from cumae.properties.dialects import VLLM, Output
from cumae.properties.engines.pages import having, listed_slots
from cumae.properties.engines.vllm.engine import ENGINE, STEPS, UNPADDED

Tensor = torch.Tensor


class _Buffer:
    """Stands for vLLM's pair of buffers: what is written on the host is copied to the device."""

    def __init__(self, gpu: Tensor) -> None:
        self.gpu = gpu
        self.np = np.zeros(len(gpu), dtype=np.int32)

    def copy_to_gpu(self, count: int) -> Tensor:
        """Copy the first entries to the device and return them."""
        self.gpu[:count] = torch.from_numpy(self.np[:count])
        return self.gpu[:count]


@ENGINE.adapts(
    "vllm/v1/attention/backends/flashinfer.py",
    "FlashInferMetadataBuilder._compute_flashinfer_kv_metadata",
    operation="kv_indices",
    domain=STEPS,
)
def flashinfer_kv_metadata(method: Any) -> Callable[..., None]:
    """Offsets and last pages on the host, pages on the device; padded requests have none."""

    def launch(
        block_table: Tensor,
        seq_lens_cpu: Tensor,
        num_reqs_padded: int,
        block_size: int,
        paged_kv_indptr: Tensor,
        paged_kv_indices: Tensor,
        paged_kv_last_page_len: Tensor,
    ) -> None:
        builder = SimpleNamespace(
            paged_kv_indptr=_Buffer(paged_kv_indptr),
            paged_kv_indices=paged_kv_indices,
            paged_kv_last_page_len=_Buffer(paged_kv_last_page_len),
        )
        lens = seq_lens_cpu.numpy()
        num_blocks = (lens + (block_size - 1)) // block_size
        method(builder, num_blocks, lens, block_table[:num_reqs_padded], num_reqs_padded, block_size)

    return launch


def _token_starts(case: Case) -> Any:
    """Return the running sum of the keys."""
    return np.array([0, *accumulate(r.seq_len for r in case.batch.requests)], dtype=np.int32)


@ENGINE.adapts(
    "vllm/v1/attention/backends/mla/rocm_aiter_mla.py",
    "_expand_page_indices_kernel",
    operation="kv_indices",
    dialect=having(
        VLLM,
        "kv_indices",
        Output(
            "token_indices",
            follows="kv_indices",
            axis="key",
            shape=lambda case: (sum(request.seq_len for request in case.batch.requests),),
            expect=lambda _, inputs: listed_slots(inputs).kv_indices,
        ),
        token_starts=_token_starts,
    ),
    domain=UNPADDED.having(missing_blocks=False, large_slots=False),
)
def expand_kv_indices(kernel: Any) -> Callable[..., None]:
    """Blocks expanded to the slots of all keys, cached ones too, for pages of one token."""

    def launch(
        block_table: Tensor,
        token_starts: Tensor,
        num_reqs: int,
        max_seq_len: int,
        block_size: int,
        token_indices: Tensor,
    ) -> None:
        table = (block_table, block_table.stride(0), block_table.stride(1))
        sizes = {"KERNEL_BLOCK_SIZE": block_size, "BLOCK_SIZE": 1024}
        tiles = max(-(-max_seq_len // 1024), 1)
        kernel[(num_reqs, tiles)](token_indices, *table, token_starts, None, **sizes)

    return launch
