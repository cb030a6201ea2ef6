"""Slots and pages that SGLang's paged allocator hands out, and the last slots from which it goes on."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch

from cumae.properties.dialects import SGLANG
from cumae.properties.engines.sglang.engine import DECODES, ENGINE, STEPS

Tensor = torch.Tensor
_POOL = SGLANG.extend(num_reqs=lambda case: len(case.batch.requests))
_PAGES = STEPS.having(block_sizes=(2, 4, 16, 32, 64, 128), padding="none", large_slots=True)
_NEXT = DECODES.having(block_sizes=(2, 4, 16, 64), padding="none", large_slots=True)
_KERNELS = "sglang/kernels/ops/memory/allocator.py"
_PAGED = "sglang/srt/mem_cache/allocator/paged.py"
_COMMON = "sglang/kernels/ops/memory/common.py"
_ALLOCATION = "sglang/srt/mem_cache/allocation.py"


@ENGINE.adapts(_KERNELS, "alloc_extend_kernel", operation="allocate_slots", dialect=_POOL, domain=_PAGES)
def alloc_extend_pages(kernel: Any) -> Callable[..., None]:
    """The Triton kernel for extends."""

    def launch(
        prefix_lens: Tensor,
        end_offset: Tensor,
        last_loc: Tensor,
        free_pages: Tensor,
        num_reqs: int,
        page_size: int,
        out_cache_loc: Tensor,
    ) -> None:
        width = 1 << max(num_reqs - 1, 0).bit_length()
        lens = (prefix_lens, end_offset)
        kernel[(num_reqs,)](*lens, last_loc, free_pages, out_cache_loc, width, page_size)

    return launch


@ENGINE.adapts(_KERNELS, "alloc_decode_kernel", operation="allocate_slots", dialect=_POOL, domain=_NEXT)
def alloc_decode_pages(kernel: Any) -> Callable[..., None]:
    """The Triton kernel for decodes."""

    def launch(
        end_offset: Tensor,
        last_loc: Tensor,
        free_pages: Tensor,
        num_reqs: int,
        page_size: int,
        out_cache_loc: Tensor,
    ) -> None:
        width = 1 << max(num_reqs - 1, 0).bit_length()
        kernel[(num_reqs,)](end_offset, last_loc, free_pages, out_cache_loc, width, page_size)

    return launch


def _pool(free_pages: Tensor, page_size: int, *, with_kernels: bool) -> SimpleNamespace:
    """Return what the allocator's methods read of it."""
    return SimpleNamespace(
        free_pages=free_pages,
        page_size=page_size,
        device=free_pages.device,
        use_triton_kernels=with_kernels,
        debug_mode=False,
        merge_and_sort_free=lambda: None,
    )


def _extending(method: Any, *, with_kernels: bool) -> Callable[..., dict[str, Any]]:
    def launch(
        prefix_lens: Tensor,
        end_offset: Tensor,
        last_loc: Tensor,
        free_pages: Tensor,
        extend_num_tokens: int,
        page_size: int,
    ) -> dict[str, Any]:
        pool = _pool(free_pages, page_size, with_kernels=with_kernels)
        lens = (prefix_lens, prefix_lens.cpu(), end_offset, end_offset.cpu())
        slots = method(pool, *lens, last_loc, extend_num_tokens)
        return {"out_cache_loc": slots, "num_new_pages": free_pages.numel() - pool.free_pages.numel()}

    return launch


def _decoding(method: Any, *, with_kernels: bool) -> Callable[..., dict[str, Any]]:
    def launch(end_offset: Tensor, last_loc: Tensor, free_pages: Tensor, page_size: int) -> dict[str, Any]:
        pool = _pool(free_pages, page_size, with_kernels=with_kernels)
        slots = method(pool, end_offset, end_offset.cpu(), last_loc)
        return {"out_cache_loc": slots, "num_new_pages": free_pages.numel() - pool.free_pages.numel()}

    return launch


_EXTEND, _DECODE = (f"PagedTokenToKVPoolAllocator.alloc_{what}" for what in ("extend", "decode"))


@ENGINE.adapts(_PAGED, _EXTEND, operation="allocate_slots", dialect=_POOL, domain=_PAGES)
def paged_alloc_extend(method: Any) -> Callable[..., dict[str, Any]]:
    """The allocator's method for extends, by its kernel: slots, and pages that leave the list."""
    return _extending(method, with_kernels=True)


@ENGINE.adapts(_PAGED, _EXTEND, operation="allocate_slots", dialect=_POOL, domain=_PAGES)
def paged_alloc_extend_naive(method: Any) -> Callable[..., dict[str, Any]]:
    """The allocator's method for extends, in torch."""
    return _extending(method, with_kernels=False)


@ENGINE.adapts(_PAGED, _DECODE, operation="allocate_slots", dialect=_POOL, domain=_NEXT)
def paged_alloc_decode(method: Any) -> Callable[..., dict[str, Any]]:
    """The allocator's method for decodes, by its kernel."""
    return _decoding(method, with_kernels=True)


@ENGINE.adapts(_PAGED, _DECODE, operation="allocate_slots", dialect=_POOL, domain=_NEXT)
def paged_alloc_decode_naive(method: Any) -> Callable[..., dict[str, Any]]:
    """The allocator's method for decodes, in torch."""
    return _decoding(method, with_kernels=False)


def _last_locs(function: Any) -> Callable[..., dict[str, Tensor]]:
    def launch(req_to_token: Tensor, req_pool_indices: Tensor, prefix_lens: Tensor) -> dict[str, Tensor]:
        return {"last_locs": function(req_to_token, req_pool_indices, prefix_lens).long()}

    return launch


_LAST = STEPS.having(padding="none")


@ENGINE.adapts(_COMMON, "get_last_loc_triton", operation="allocate_slots", dialect=_POOL, domain=_LAST)
def get_last_loc(function: Any) -> Callable[..., dict[str, Tensor]]:
    """The last slot of each prefix."""
    return _last_locs(function)


@ENGINE.adapts(_COMMON, "get_last_loc_triton_safe", operation="allocate_slots", dialect=_POOL, domain=_LAST)
def get_last_loc_safe(function: Any) -> Callable[..., dict[str, Tensor]]:
    """The last slot of each prefix, through int32."""
    return _last_locs(function)


@ENGINE.adapts(_ALLOCATION, "get_last_loc_torch", operation="allocate_slots", dialect=_POOL, domain=_LAST)
def get_last_loc_in_torch(function: Any) -> Callable[..., dict[str, Tensor]]:
    """The last slot of each prefix, in torch."""
    return _last_locs(function)


@ENGINE.adapts(
    "sglang/srt/hardware_backend/npu/dsv4/dsv4_allocator.py",
    "get_last_loc",
    operation="allocate_slots",
    domain=_LAST.having(empty_requests=False),
)
def get_last_loc_of_pages(function: Any) -> Callable[..., dict[str, Tensor]]:
    """The last slot of each prefix, from a table of pages."""

    def launch(page_table: Tensor, prefix_lens: Tensor, page_size: int) -> dict[str, Tensor]:
        rows = torch.arange(len(prefix_lens), device=page_table.device)
        return {"last_locs": function(page_table, rows, prefix_lens, page_size)}

    return launch
