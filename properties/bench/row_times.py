"""Device times of rows and pages that are where they belong, beside a copy of as many bytes. GPU only."""

from collections.abc import Iterator
from functools import partial

import torch

from cumae.oracle import fp8_row
from cumae.properties.bench.clock import Timing, WrongResult, graph_time, queued_time
from cumae.properties.operations import OPERATIONS
from cumae.properties.operations.targets import load_function

_PAGES = {
    "NHD bf16": ("NHD", "bf16", 8, 128, 128),
    "HND bf16": ("HND", "bf16", 8, 128, 128),
    "packed bf16": ("packed", "bf16", 8, 128, 128),
    "shuffled bf16": ("shuffled", "bf16", 8, 128, 128),
    "NHD fp8": ("NHD", "fp8", 8, 128, 128),
    "indexer's bytes": ("NHD", "bytes", 1, 128, 4),
}
"""Order of a page, format, heads, and numbers of a key and of a value."""
_MOST_JUDGED = 128
"""Rows of fp8 that are compared with the oracle's, which takes a millisecond for each."""


def row_timings() -> Iterator[Timing]:
    """Yield the timings of rows written to slots, and of cached and new rows put together."""
    yield from _write_timings()
    yield from _interleave_timings()


def page_timings() -> Iterator[Timing]:
    """Yield the timings of keys and values written into pages of 64 tokens, and gathered out of them.

    The tokens of a block follow one another, as in a prefill; blocks are in any order.
    """
    for count in (256, 65_536):
        for name, (order, head_format, heads, key_dim, value_dim) in _PAGES.items():
            blocks = count // 64
            requests = min(blocks, 64)
            new = torch.bfloat16 if head_format in ("bf16", "fp8") else torch.uint8
            held = torch.bfloat16 if head_format == "bf16" else torch.uint8
            rows = [
                torch.randint(0, 99, (count, heads, dim), device="cuda", dtype=torch.uint8).to(new)
                for dim in (key_dim, value_dim)
            ]
            width = heads * (key_dim + value_dim)
            pages = torch.zeros((blocks, 64 * width), device="cuda", dtype=held)
            table = torch.randperm(blocks, device="cuda", dtype=torch.int32).view(requests, -1)
            slots = (table.view(-1, 1) * 64 + torch.arange(64, device="cuda")).flatten()
            how = (order, head_format, 1.0, 1.0)
            write = partial(load_function("cumae.gpu_impl:write_pages"), *rows, slots, pages, 64, *how)
            found = [torch.zeros_like(row) for row in rows]
            lens = torch.full((requests,), count // requests, device="cuda", dtype=torch.int32)
            listed = (table, None, lens, requests, 64, heads, 0)
            read = partial(load_function("cumae.gpu_impl:read_pages"), pages, *listed, *how, *found)
            moved = count * width * (pages.element_size() + rows[0].element_size())
            source = torch.zeros(moved // 2, device="cuda", dtype=torch.uint8)
            copy = partial(torch.empty_like(source).copy_, source)
            size = f"{count:,} tokens, {heads} heads of {key_dim} + {value_dim}, {name}"
            write()
            read()
            must = [row.to(torch.float8_e4m3fn).to(new) if head_format == "fp8" else row for row in rows]
            if not all(map(torch.equal, found, must)):
                raise WrongResult(f"pages, {size}: what was written is not read back")
            for kernel, call in (("write_pages", write), ("read_pages", read), ("copy, in a graph", copy)):
                median, spread = graph_time(call)
                yield Timing(kernel, size, median, spread, moved / median / 1000)


def _write_timings() -> Iterator[Timing]:
    """Time new rows of 512 + 64 bf16, copied into a cache of such rows and quantised to fp8.

    Beside many rows stands a copy of as many bytes.
    """
    block_size = 64
    for count in (1, 128, 65_536):
        new_latents = torch.randn((count, 576), device="cuda", dtype=torch.bfloat16)
        slots = torch.randperm(count, device="cuda")
        for kernel in OPERATIONS["cache_write"].kernels:
            for dtype, width in ((torch.bfloat16, 576), (torch.uint8, 656)):
                blocks = -(-count // block_size)
                cache = torch.zeros((blocks, block_size, width), device="cuda", dtype=dtype)
                write = partial(load_function(kernel), new_latents, slots, cache, False)
                size = f"{count:,} rows to {str(dtype).removeprefix('torch.')}"
                write()
                require_rows(f"{kernel.partition(':')[2]}, {size}", new_latents, slots, cache)
                median, spread = graph_time(write)
                moved = count * (2 * 576 + width * cache.element_size() + 8)
                yield Timing(kernel.partition(":")[2], size, median, spread, moved / median / 1000)
                if count > 128:
                    source = torch.zeros(moved // 2, device="cuda", dtype=torch.uint8)
                    median, spread = queued_time(partial(torch.empty_like(source).copy_, source))
                    yield Timing("copy, launched", size, median, spread, moved / median / 1000)


def require_rows(told: str, new_latents: torch.Tensor, slots: torch.Tensor, cache: torch.Tensor) -> None:
    """Raise ``WrongResult`` unless each row is in its slot; of rows of fp8, some are judged."""
    written = cache.flatten(0, 1)[slots]
    if cache.dtype == new_latents.dtype:
        is_right = torch.equal(written, new_latents)
    else:
        step = -(-len(slots) // _MOST_JUDGED)
        bits = (new_latents[::step].view(torch.int16).to(torch.int32) & 0xFFFF).tolist()
        is_right = written[::step].tolist() == [[*fp8_row(tuple(row))] for row in bits]
    if not is_right:
        raise WrongResult(f"{told}: a row is not in its slot")


def _interleave_timings() -> Iterator[Timing]:
    """Time 1,048,576 key rows of 576 or 66 bf16, nine in ten cached, and a copy of the same bytes.

    576 are a latent's, and as many bytes as 66 are an indexer's. Both ways to copy are timed, because a
    graph may copy more slowly than a launch.
    """
    for width in (576, 66):
        yield from _interleaved(width)


def _interleaved(width: int) -> Iterator[Timing]:
    requests, length, cached, block_size = 64, 16_384, 14_720, 64
    blocks = requests * length // block_size
    table = torch.randperm(blocks, device="cuda", dtype=torch.int32).view(requests, -1)
    cache = torch.randint(-9, 9, (blocks, block_size, width), device="cuda", dtype=torch.int16)
    new_rows = torch.randint(-9, 9, (requests * (length - cached), width), device="cuda", dtype=torch.int16)
    steps = torch.arange(requests + 1, device="cuda", dtype=torch.int32)
    keys = torch.empty((requests * length, width), device="cuda", dtype=torch.bfloat16)
    write = load_function("cumae.gpu_impl:write_prefix_interleave")
    arguments = {
        "cache": cache.view(torch.bfloat16),
        "new_rows": new_rows.view(torch.bfloat16),
        "block_table": table,
        "cu_seqlens_q": steps * (length - cached),
        "cu_seqlens_k": steps * length,
        "context_lens": torch.full((requests,), cached, device="cuda", dtype=torch.int32),
        "max_context_len": cached,
        "keys": keys,
    }
    write(**arguments)
    rows = torch.arange(length, device="cuda")
    block, place = table[:, rows[:cached] // block_size].long(), rows[:cached] % block_size
    must = torch.cat([cache[block, place], new_rows.view(requests, -1, width)], dim=1)
    if not torch.equal(keys.view(torch.int16), must.flatten(0, 1)):
        raise WrongResult(f"write_prefix_interleave, {requests} requests of {length:,} keys: wrong rows")
    del must
    source = torch.empty_like(keys)
    moved = 2 * keys.numel() * keys.element_size()
    size = f"1,048,576 rows of {width} bf16"
    timed = {
        "write_prefix_interleave": graph_time(lambda: write(**arguments)),
        "copy, in a graph": graph_time(lambda: keys.copy_(source)),
        "copy, launched": queued_time(lambda: keys.copy_(source)),
    }
    for name, times in timed.items():
        yield Timing(name, size, *times, moved / times[0] / 1000)
