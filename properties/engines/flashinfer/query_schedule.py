"""The schedule of scoring a decode step's keys: where each multiprocessor's share of splits begins."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import torch
import triton

from cumae.properties.engines.flashinfer.engine import ENGINE
from cumae.properties.engines.sglang.engine import DECODES

Tensor = torch.Tensor
_MOST_KEYS = 2**12
_SCHEDULE = "flashinfer/experimental/b12x/attention/dsa_indexer/schedule_metadata.py"
_STEPS = DECODES.having(padding="none", topk=(_MOST_KEYS,), max_context_len=_MOST_KEYS - 1, max_requests=256)


def _shares(starts: list[list[int]], num_splits: list[int]) -> Iterator[tuple[int, int]]:
    """Yield the row and the split of each item: from each start, a row and its split, to the next one."""
    for (row, split), stop in pairwise(starts):
        while [row, split] < stop and row < len(num_splits):
            if split < num_splits[row]:
                yield row, split
                split += 1
            else:
                row, split = row + 1, 0


def _write_items(starts: Tensor, seq_lens: Tensor, split_size: int, outputs: tuple[Tensor, ...]) -> None:
    """Write the row, the first key and the stop of each item, and -1 as the row of those that are left."""
    num_splits = [-(-length // split_size) for length in seq_lens.tolist()]
    items = [(row, i * split_size, (i + 1) * split_size) for row, i in _shares(starts.tolist(), num_splits)]
    columns = torch.tensor(items, dtype=torch.int32).reshape(-1, 3).T
    for output, column in zip(outputs, columns, strict=True):
        output.fill_(-1)
        output[: len(column)] = column


def _dealt(schedule: Callable[[Tensor, int, int, Tensor], Any]) -> Callable[..., None]:
    """Return a launch that writes the items between the starts which a schedule writes."""

    def launch(
        seq_lens: Tensor,
        split_size: int,
        num_workers: int,
        work_token: Tensor,
        work_start: Tensor,
        work_stop: Tensor,
    ) -> None:
        starts = torch.empty((num_workers + 1, 2), dtype=torch.int32, device=seq_lens.device)
        schedule(seq_lens, split_size, num_workers, starts)
        _write_items(starts, seq_lens, split_size, (work_token, work_start, work_stop))

    return launch


@ENGINE.adapts(
    _SCHEDULE,
    "_build_paged_mqa_schedule_triton",
    operation="any_schedule",
    dialect="cumae",
    domain=_STEPS,
)
def paged_schedule(kernel: Any) -> Callable[..., None]:
    """By one program."""

    def schedule(seq_lens: Tensor, split_size: int, num_workers: int, starts: Tensor) -> None:
        rows = len(seq_lens)
        blocks = triton.next_power_of_2(rows), triton.next_power_of_2(num_workers + 1)
        kernel[(1,)](seq_lens, starts, rows, 0, num_workers, 0, starts.stride(0), split_size, False, *blocks)

    return _dealt(schedule)


@ENGINE.adapts(
    _SCHEDULE,
    "build_paged_mqa_schedule_metadata_torch",
    operation="any_schedule",
    dialect="cumae",
    domain=_STEPS,
)
def paged_schedule_by_torch(function: Any) -> Callable[..., None]:
    """By torch, for more requests than one program takes."""

    def schedule(seq_lens: Tensor, split_size: int, num_workers: int, starts: Tensor) -> None:
        function(seq_lens, block_kv=split_size, num_sms=num_workers, pages_per_split=1, out=starts)

    return _dealt(schedule)
