"""A foreign schedule is right where its items hold each key of each row once, in whatever order."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

import cumae
from cumae.properties.running.device import prepare

prepare("auto")
Items = list[tuple[int, int, int]]


def kv_lens_of(
    token_to_request: torch.Tensor, cu_seqlens_q: torch.Tensor, context_lens: torch.Tensor, topk: int
) -> list[int]:
    owners, starts, contexts = (t.tolist() for t in (token_to_request, cu_seqlens_q, context_lens))
    return [min(contexts[b] + t - starts[b] + 1, topk) if b >= 0 else 0 for t, b in enumerate(owners)]


def whole_rows_last_first(kv_lens: list[int]) -> Items:
    return [(row, 0, kv_len) for row, kv_len in reversed(list(enumerate(kv_lens)))]


def one_key_each_unclipped(kv_lens: list[int]) -> Items:
    items = [(row, key, key + 1) for row, kv_len in enumerate(kv_lens) for key in range(kv_len)]
    return [(row, key, stop + 5 if stop == kv_lens[row] else stop) for row, key, stop in items]


def last_key_forgotten(kv_lens: list[int]) -> Items:
    return [(row, 0, kv_len - 1) for row, kv_len in enumerate(kv_lens)]


def key_held_twice(kv_lens: list[int]) -> Items:
    halves = [((row, 0, n // 2 + 1), (row, n // 2, n)) for row, n in enumerate(kv_lens) if n > 1]
    return [item for both in halves for item in both] + [(r, 0, n) for r, n in enumerate(kv_lens) if n == 1]


def rows_of_the_neighbour(kv_lens: list[int]) -> Items:
    return [(max(row - 1, 0), 0, kv_len) for row, kv_len in enumerate(kv_lens)]


def verdict_on(deal: Callable[[list[int]], Items]) -> cumae.Verdict:
    def plan(
        token_to_request: torch.Tensor,
        cu_seqlens_q: torch.Tensor,
        context_lens: torch.Tensor,
        topk: int,
        work_token: torch.Tensor,
        work_start: torch.Tensor,
        work_stop: torch.Tensor,
    ) -> None:
        items = deal(kv_lens_of(token_to_request, cu_seqlens_q, context_lens, topk))
        columns = torch.tensor(items, dtype=torch.int32).reshape(-1, 3).T
        for output, fill, values in zip(
            (work_token, work_start, work_stop), (-1, 0, 0), columns, strict=True
        ):
            output.fill_(fill)
            output[: len(values)] = values

    how: dict[str, Any] = {"checks": ["agrees", "stays_in_bounds", "is_deterministic", "forgets_history"]}
    return cumae.check(plan, "any_schedule", examples=30, save_to=None, **how)


@pytest.mark.parametrize("deal", [whole_rows_last_first, one_key_each_unclipped])
def test_any_partition_of_the_keys_is_right(deal: Callable[[list[int]], Items]) -> None:
    verdict = verdict_on(deal)
    assert verdict.ok, verdict.failure


@pytest.mark.parametrize(
    ("deal", "said"),
    [
        (last_key_forgotten, r"row \d: keys \[0, 1\) are in no item"),
        (key_held_twice, r"row \d: keys \[1, 2\) are in two items"),
        (rows_of_the_neighbour, r"row \d: keys \[0, 1\) are in two items"),
    ],
)
def test_a_schedule_that_is_none_is_told(deal: Callable[[list[int]], Items], said: str) -> None:
    failure = verdict_on(deal).failure
    assert failure is not None
    assert failure.finding.check == "agrees"
    assert re.fullmatch(said, failure.finding.message)
