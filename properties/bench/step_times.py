"""Three ways to write a whole step's metadata, to be timed: plain torch, four kernels, one fused launch."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from cumae.properties.operations.targets import load_function

BLOCK_SIZE = 64
Arguments = dict[str, Any]

Sizes = tuple[int, tuple[int, int], tuple[int, int]]

SHAPES: dict[str, Sizes] = {
    "64 requests of up to 2,048 tokens": (64, (0, 500), (1, 2048)),
    "1,024 requests of up to 64 tokens": (1024, (0, 4096), (1, 64)),
    "256 decodes": (256, (1, 8192), (1, 1)),
    "4,096 decodes": (4096, (1, 8192), (1, 1)),
    "1 prefill of 131,072 tokens": (1, (0, 0), (131_072, 131_072)),
    "64 requests with 32,768 cached tokens": (64, (30_000, 32_768), (1, 512)),
    "1,024 requests, 4 million tokens": (1024, (0, 100), (1, 8192)),
    "4,096 requests, 4 million tokens": (4096, (0, 100), (1, 2048)),
    "65,536 requests, 4 million tokens": (65_536, (0, 100), (1, 128)),
}
"""Production shapes: requests, then the least and the most cached and new tokens of a request."""


def drawn_step(device: str, sizes: Sizes) -> "Step":
    """Return a step of so many requests, with lengths drawn between the bounds."""
    count, cached, new = sizes
    generator = torch.Generator().manual_seed(count)

    def draw(low: int, high: int) -> torch.Tensor:
        return torch.randint(low, high + 1, (count,), generator=generator, dtype=torch.int32).to(device)

    return Step(draw(*cached), draw(*new))


class Step:
    """The inputs of a step, buffers for all it needs, and the ways to fill them."""

    def __init__(self, context_lens: torch.Tensor, query_lens: torch.Tensor) -> None:
        device, count = context_lens.device, len(context_lens)
        self.num_tokens = int(query_lens.sum())
        width = -(-int((context_lens + query_lens).max()) // BLOCK_SIZE)
        # Requests may share blocks here, which changes no time: no table of gigabytes is needed.
        table = torch.arange(count * width, device=device, dtype=torch.int32).view(count, width) % 2**20
        self.inputs: Arguments = {
            "context_lens": context_lens,
            "query_lens": query_lens,
            "is_prefill": query_lens > 1,
            "block_table": table,
        }
        counted = {"cu_seqlens_q": count + 1, "cu_seqlens_k": count + 1, "max_seqlen_q": 1, "max_seqlen_k": 1}
        narrow = counted | dict.fromkeys(("token_to_request", "ks", "ke"), self.num_tokens)
        self.outputs = {n: torch.empty(size, dtype=torch.int32, device=device) for n, size in narrow.items()}
        for name in ("position_ids", "slot_mapping"):
            self.outputs[name] = torch.empty(self.num_tokens, dtype=torch.int64, device=device)

    @property
    def bytes(self) -> int:
        """Bytes of the outputs and the lengths: what a step moves at least."""
        held = [*self.outputs.values(), self.inputs["context_lens"], self.inputs["query_lens"]]
        return sum(one.numel() * one.element_size() for one in held)

    def ways(self) -> Iterator[tuple[str, Callable[[], None]]]:
        """Yield the name and the call of each way, the reference first."""
        yield "straightforward torch", self._torch
        yield "four kernels", self._separate()
        yield "write_step_metadata", partial(shipped("write_step_metadata"), **self._fused())

    def difference(self, expected: Arguments) -> str:
        """Return the first element that is not as expected, empty if there is none."""
        for name, output in self.outputs.items():
            unequal = (output != expected[name]).nonzero()
            if len(unequal):
                i = int(unequal[0])
                return f"{name}[{i}] = {int(output[i])}, must be {int(expected[name][i])}"
        return ""

    def _fused(self) -> Arguments:
        blocks = {"row_index": None, "block_size": BLOCK_SIZE, "kernel_block_size": BLOCK_SIZE}
        ranks = {"compress_ratio": 1, "window": 0, "world": 1, "rank": 0, "interleave": 1}
        padding = {"key_scope": "all", "token_padding": -1, "dummy_request": False}
        return {**self.inputs, **blocks, **ranks, **padding, **self.outputs}

    def _separate(self) -> Callable[[], None]:
        given = self._fused()
        kernels = [
            shipped(f"write_{n}")
            for n in ("sequence_layout", "position_ids", "slot_mapping", "causal_windows")
        ]
        calls = [partial(kernel, **_taken(kernel, given)) for kernel in kernels]

        def run() -> None:
            for call in calls:
                call()

        return run

    def _torch(self) -> None:
        """Fill the buffers by what an engine would write first: no host number but the count of tokens."""
        contexts, queries = self.inputs["context_lens"], self.inputs["query_lens"]
        count, out = len(contexts), self.outputs
        seq_lens = contexts + queries
        for name, lens in (("cu_seqlens_q", queries), ("cu_seqlens_k", seq_lens)):
            out[name][0].zero_()
            torch.cumsum(lens, 0, dtype=torch.int32, out=out[name][1:])
        torch.amax(queries, 0, keepdim=True, out=out["max_seqlen_q"])
        torch.amax(torch.where(queries > 0, seq_lens, 0), 0, keepdim=True, out=out["max_seqlen_k"])
        requests = torch.arange(count, device=contexts.device, dtype=torch.int32)
        owner = torch.repeat_interleave(requests, queries, output_size=self.num_tokens)
        out["token_to_request"].copy_(owner)
        rows = torch.arange(self.num_tokens, device=contexts.device)
        position = rows - out["cu_seqlens_q"][owner] + contexts[owner]
        out["position_ids"].copy_(position)
        block = self.inputs["block_table"][owner, position // BLOCK_SIZE].to(torch.int64)
        out["slot_mapping"].copy_(block * BLOCK_SIZE + position % BLOCK_SIZE)
        first, is_prefill = out["cu_seqlens_k"][owner], self.inputs["is_prefill"][owner]
        out["ks"].copy_(torch.where(is_prefill, first, 0))
        out["ke"].copy_(torch.where(is_prefill, first + position + 1, 0))


def shipped(name: str) -> Callable[..., Any]:
    """Return a kernel's launcher, imported only now: before, Triton may not know the device."""
    function: Callable[..., Any] = load_function(f"cumae.gpu_impl:{name}")
    return function


def _taken(function: Callable[..., Any], given: Arguments) -> Arguments:
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    return {name: given[name] for name in names}
