"""Steps of a few requests, their tensors, and the schedule of each, token by token."""

import random
from collections.abc import Sequence
from typing import NamedTuple

import torch

from cumae.properties.running.device import prepare

DEVICE = prepare("auto")
POISON = 77
INDEX_DTYPES = (torch.int32, torch.int64)


class Step(NamedTuple):
    """The lengths of the requests of a step and its padding."""

    context_lens: list[int]
    query_lens: list[int]
    num_padding: int = 0
    token_padding: int = -1

    def tokens(self) -> list[tuple[int, int]]:
        """Return the request and the visible keys of each row, (-1, 0) for padding."""
        rows = [
            (b, context_len + i + 1)
            for b, (context_len, query_len) in enumerate(zip(*self[:2], strict=True))
            for i in range(query_len)
        ]
        return rows + [(-1, 0)] * self.num_padding

    def tensors(self, dtype: torch.dtype = torch.int32) -> dict[str, torch.Tensor]:
        """Return the inputs that every launcher here takes."""
        requests = [self.token_padding if b < 0 else b for b, _ in self.tokens()]
        starts = [sum(self.query_lens[:b]) for b in range(len(self.query_lens) + 1)]
        lists = {"token_to_request": requests, "cu_seqlens_q": starts, "context_lens": self.context_lens}
        return {name: torch.tensor(held, dtype=dtype, device=DEVICE) for name, held in lists.items()}

    def host(self, dtype: torch.dtype = torch.int32) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the host copies of both lengths."""
        return torch.tensor(self.context_lens, dtype=dtype), torch.tensor(self.query_lens, dtype=dtype)

    def kv_lens(self, topk: int) -> list[int]:
        """Return the keys each row attends to."""
        return [min(bound, topk) for _, bound in self.tokens()]


def expected_schedule(step: Step, topk: int, split_size: int, num_workers: int) -> list[list[int]]:
    """Return the five outputs of sparse_schedule."""
    items, num_splits = [], []
    for row, kv_len in enumerate(step.kv_lens(topk)):
        starts = range(0, kv_len, split_size)
        items += [(row, start, min(start + split_size, kv_len)) for start in starts]
        num_splits.append(len(starts))
    n, w = len(items), num_workers
    indptr = [i * (n // w) + min(i, n % w) for i in range(w + 1)]
    capacity = len(num_splits) * -(-topk // split_size)
    items += [(-1, 0, 0)] * (capacity - n)
    return [indptr, *([item[field] for item in items] for field in range(3)), num_splits]


def drawn(rng: random.Random, topk: int, most: int = 8) -> Step:
    """Return a small step: empty requests, contexts on both sides of topk, padding of either value."""
    count = rng.choice((0, 1, 2, 5, 33))
    context_lens = [rng.choice((0, 0, 1, 3, topk - 1, topk, topk + 5, 2**31 - 100)) for _ in range(count)]
    query_lens = [rng.choice((0, 0, 1, 1, 2, most)) for _ in range(count)]
    # 0 is no padding value where there is no request 0.
    return Step(context_lens, query_lens, rng.choice((0, 0, 1, 7)), rng.choice((-1, 0)) if count else -1)


def lists(tensors: Sequence[torch.Tensor]) -> list[list[int]]:
    return [tensor.tolist() for tensor in tensors]
