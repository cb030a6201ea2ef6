"""One right answer as each kind of callable, and callables that cannot be under test."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor


def fill(shift: int, context_lens: Tensor, query_lens: Tensor, position_ids: Tensor) -> None:
    """Write the positions and ``shift`` more; padding is 0."""
    position_ids.zero_()
    row = 0
    for context_len, query_len in zip(context_lens.tolist(), query_lens.tolist(), strict=True):
        position_ids[row : row + query_len] = torch.arange(context_len, context_len + query_len) + shift
        row += query_len


class Launcher:
    def __call__(self, context_lens: Tensor, query_lens: Tensor, position_ids: Tensor) -> None:
        fill(0, context_lens, query_lens, position_ids)

    def launch(self, context_lens: Tensor, query_lens: Tensor, position_ids: Tensor) -> None:
        self(context_lens, query_lens, position_ids)

    @classmethod
    def made(cls, context_lens: Tensor, query_lens: Tensor, position_ids: Tensor) -> None:
        cls()(context_lens, query_lens, position_ids)


class Module(torch.nn.Module):
    def forward(self, context_lens: Tensor, query_lens: Tensor, position_ids: Tensor) -> None:
        fill(0, context_lens, query_lens, position_ids)


launcher = Launcher()
method = launcher.launch
module = Module()
bound = partial(fill, 0)
small = lambda context_lens, query_lens, position_ids: fill(0, context_lens, query_lens, position_ids)  # noqa: E731


@torch.library.custom_op("cumae_callables::positions", mutates_args=("position_ids",))
def operator(context_lens: torch.Tensor, query_lens: torch.Tensor, position_ids: torch.Tensor) -> None:
    fill(0, context_lens, query_lens, position_ids)


_LIBRARY: Any = torch.library.Library("cumae_callables", "FRAGMENT")  # type: ignore[no-untyped-call]
_LIBRARY.define("written(Tensor context_lens, Tensor query_lens, Tensor(a!) position_ids) -> Tensor(a!)")
_LIBRARY.define("two.int(Tensor query_lens, int a) -> Tensor")
_LIBRARY.define("two.float(Tensor query_lens, float a) -> Tensor")


def _written(context_lens: Tensor, query_lens: Tensor, position_ids: Tensor) -> Tensor:
    fill(0, context_lens, query_lens, position_ids)
    return position_ids


_LIBRARY.impl("written", _written, "CompositeExplicitAutograd")


@torch.library.custom_op("cumae_callables::returned", mutates_args=())
def returned(context_lens: torch.Tensor, query_lens: torch.Tensor, num_tokens_padded: int) -> torch.Tensor:
    position_ids = torch.empty(num_tokens_padded, dtype=torch.int64, device=query_lens.device)
    fill(0, context_lens, query_lens, position_ids)
    return position_ids


@triton.jit
def kernel(position_ids: tl.tensor) -> None:
    tl.store(position_ids, 1)


tuned = triton.autotune([triton.Config({})], key=[])(kernel)


async def runs_later(query_lens: torch.Tensor, position_ids: torch.Tensor) -> None: ...


def yields(query_lens: torch.Tensor, position_ids: torch.Tensor) -> Iterator[None]:
    yield


class Async:
    async def __call__(self, query_lens: torch.Tensor, position_ids: torch.Tensor) -> None: ...


def any_arguments(*tensors: torch.Tensor) -> None: ...


def any_names(query_lens: torch.Tensor, **tensors: torch.Tensor) -> None: ...


class HasNoCall: ...


def local() -> Any:
    def inside(context_lens: torch.Tensor, query_lens: torch.Tensor, position_ids: torch.Tensor) -> None:
        fill(1, context_lens, query_lens, position_ids)

    return inside
