"""The time that the original pull requests save in a decode step, both ways measured in one run. GPU only."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch

from cumae.properties.bench.clock import graph_time, host_time, queued_time, whole_time
from cumae.properties.bench.step_times import shipped

LAYERS = 61  # of DeepSeek-V3.2
CACHED, BLOCK_SIZE, WIDTH, TOPK, SPLIT_SIZE, WORKERS = 4096, 64, 576, 2048, 64, 132
Run = Callable[[], Any]
CLOCKS: dict[str, Callable[[Run], tuple[float, float]]] = {
    "in a CUDA graph": graph_time,
    "on the device, launched": queued_time,
    "on the host": host_time,
    "until the device is done": whole_time,
}


@dataclass(frozen=True, slots=True)
class Saving:
    """Median microseconds a step ``before`` and ``after`` a change; ``clock``: what was timed."""

    report: str
    before_is: str
    after_is: str
    size: str
    clock: str
    before: float
    after: float


class Change(NamedTuple):
    """Two ways to do the work of a step. Each ``before`` is done ``times`` times in the step."""

    report: str
    before_is: str
    after_is: str
    size: str
    clocks: tuple[str, ...]
    before: Run
    after: Run
    times: int = 1


def savings(device: str, progress: Callable[[str], None] = lambda state: None) -> Iterator[Saving]:
    """Yield what each change saves, by each of its clocks."""
    for change in changes(device):
        for clock in change.clocks:
            progress(f"{change.report}, {clock}")
            before, after = (CLOCKS[clock](run)[0] for run in (change.before, change.after))
            told = change.report, change.before_is, change.after_is, change.size, clock
            yield Saving(*told, before * change.times, after)


def changes(device: str, num_decodes: int = 256, cached: int = CACHED) -> Iterator[Change]:
    """Yield the changes, on a step of so many decodes or, for the windows, of prefills."""
    step = _Decodes(device, num_decodes, cached)
    size = f"{num_decodes:,} decodes"
    slots = partial(shipped("write_slot_mapping"), **step.slots())
    clocks = ("in a CUDA graph", "on the device, launched", "on the host")
    told = "slots twice in each of 61 layers", "once a step"
    yield Change("FastDeploy#7367", *told, size, clocks, _repeated(slots, 2 * LAYERS), slots)
    windows = _Windows(device, min(64, num_decodes))
    told = "windows by a Python loop over requests", "one kernel"
    size_of_windows = f"{windows.num_requests} prefills, {windows.num_tokens:,} tokens"
    until_done = ("until the device is done",)
    yield Change("FastDeploy#7598", *told, size_of_windows, until_done, windows.loop, windows.kernel)
    cache = torch.zeros(step.num_blocks, 1, BLOCK_SIZE, WIDTH, dtype=torch.bfloat16, device=device)
    dense = torch.empty(step.num_blocks, BLOCK_SIZE, 1, WIDTH, dtype=torch.bfloat16, device=device)
    told = "a transposed copy of the cache in each of 61 layers", "a view"
    size_of_cache = f"{size}, {cache.numel() * 2 / 1e6:,.0f} MB of cache a layer"
    copy = partial(dense.copy_, cache.transpose(1, 2))
    views = _repeated(partial(shipped("latent_layout"), cache), LAYERS)
    yield Change("FastDeploy#7253", *told, size_of_cache, until_done, copy, views, LAYERS)
    del cache, dense, copy, views
    kept, rebuilt = step.schedules()
    told, size = ("a schedule built in each step", "kept while its key is the same"), f"{size}, topk {TOPK:,}"
    yield Change("vLLM#42982", *told, size, clocks[1:], rebuilt, kept)
    clears_all, clears_tail = step.buffers()
    told = "index buffers cleared whole in each step", "as far as they were written"
    yield Change("vLLM#42982", *told, size, clocks[1:], clears_all, clears_tail)


def _repeated(run: Run, times: int) -> Run:
    def repeated() -> None:
        for _ in range(times):
            run()

    return repeated


class _Decodes:
    """A decode step of requests with so many cached tokens each."""

    def __init__(self, device: str, count: int, cached: int) -> None:
        self.device, self.count = device, count
        width = cached // BLOCK_SIZE + 1
        self.num_blocks = count * width
        self.context_lens = torch.full((count,), cached, dtype=torch.int32, device=device)
        self.owner = torch.arange(count, dtype=torch.int32, device=device)
        self.cu_seqlens_q = torch.arange(count + 1, dtype=torch.int32, device=device)
        self.table = torch.randperm(self.num_blocks, device=device).view(count, width).to(torch.int32)

    def slots(self) -> dict[str, Any]:
        """Return the arguments of the slot mapping."""
        blocks = {"block_table": self.table, "row_index": None, "block_size": BLOCK_SIZE}
        blocks |= {"kernel_block_size": BLOCK_SIZE, "world": 1, "rank": 0, "interleave": 1}
        found = torch.empty(self.count, dtype=torch.int64, device=self.device)
        positions = self.context_lens.to(torch.int64)
        return {
            "token_to_request": self.owner,
            "position_ids": positions,
            **blocks,
            "slot_mapping": found,
        }

    def schedules(self) -> tuple[Run, Run]:
        """Return the calls that keep and rebuild a schedule."""
        sizes = (self.count, TOPK, SPLIT_SIZE, WORKERS, self.device)
        host = self.context_lens.cpu(), torch.ones(self.count, dtype=torch.int32, device="cpu")
        given = self.owner, self.cu_seqlens_q, self.context_lens
        hits, misses = (shipped("MetadataCache")(*sizes) for _ in range(2))
        hits(*host, *given)
        return partial(hits, *host, *given), partial(misses, None, None, *given)

    def buffers(self) -> tuple[Run, Run]:
        """Return the calls that clear all of buffers of 4,096 tokens, and what the step before wrote."""
        selected = torch.arange(TOPK, dtype=torch.int32, device=self.device).repeat(self.count, 1)
        buffers = shipped("PersistentBuffers")(4096, TOPK, self.device)
        tokens = self.owner, self.cu_seqlens_q, self.context_lens
        write = partial(buffers, *tokens, selected, self.table, BLOCK_SIZE)
        kept = write()

        def clears_all() -> None:
            kept.token_to_request.fill_(-1)
            kept.kv_indptr.zero_()
            kept.kv_indices.fill_(-1)
            write()

        return clears_all, write


class _Windows:
    """A prefill step, whose windows a loop over requests writes as a kernel does."""

    def __init__(self, device: str, num_requests: int) -> None:
        self.num_requests = num_requests
        numbers = range(num_requests)
        self._lens = [(1000 + 7 * b, 1 + 31 * b) for b in numbers]
        contexts, queries = (torch.tensor(lens, dtype=torch.int32) for lens in zip(*self._lens, strict=True))
        self.num_tokens = int(queries.sum())
        zero = torch.zeros(1, dtype=torch.int32)
        sums = (
            torch.cat([zero, torch.cumsum(lens, 0, dtype=torch.int32)])
            for lens in (queries, contexts + queries)
        )
        self._cu_q, self._cu_k = (one.to(device) for one in sums)
        self._contexts = contexts.to(device)
        self._owner = torch.repeat_interleave(torch.tensor([*numbers], dtype=torch.int32), queries).to(device)
        self._is_prefill = torch.ones(num_requests, dtype=torch.bool, device=device)
        self.ks, self.ke = torch.empty(2, self.num_tokens, dtype=torch.int32, device=device)

    def loop(self) -> None:
        """Write the windows of one request after the other, from lengths of the host."""
        first_row = first_key = 0
        for context_len, query_len in self._lens:
            rows = slice(first_row, first_row + query_len)
            stop = first_key + context_len + query_len
            self.ks[rows] = first_key
            torch.arange(
                first_key + context_len + 1,
                stop + 1,
                dtype=torch.int32,
                device=self.ke.device,
                out=self.ke[rows],
            )
            first_row, first_key = rows.stop, stop

    def kernel(self) -> None:
        """Write the windows of all requests."""
        given = self._owner, self._cu_q, self._cu_k, self._contexts, self._is_prefill
        shipped("write_causal_windows")(*given, 1, 0, 1, 0, 1, self.ks, self.ke)
