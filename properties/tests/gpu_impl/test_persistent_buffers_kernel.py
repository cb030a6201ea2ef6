"""The buffers that outlive their step: what is in them after each."""

import random

import pytest
import torch

from cumae.gpu_impl import PersistentBuffers
from cumae.properties.tests.given.steps import DEVICE, INDEX_DTYPES, POISON, Step, drawn, lists

pytestmark = pytest.mark.usefixtures("inside_every_tensor_in_any_order")


def table_of(rng: random.Random, num_rows: int, width: int, dtype: torch.dtype, largest: int) -> torch.Tensor:
    """Return a strided table with a few entries of -1, the rest of its storage valid-looking."""
    table = torch.full((num_rows, 2, width, 3), 5, dtype=dtype)
    for b in range(num_rows):
        for column in range(width):
            table[b, 0, column, 0] = rng.choice((-1, *[rng.randrange(largest)] * 5))
    return table.to(DEVICE)[:, 0, :, 0]


def expected_keys(
    step: Step, topk: int, indices: list[list[int]], table: list[list[int]], block_size: int
) -> tuple[list[int], list[int], list[int]]:
    """Return the requests, kv_indptr [T+1] and the live kv_indices of a step."""
    requests, indptr, slots = [], [0], []
    for row, (b, bound) in enumerate(step.tokens()):
        requests.append(b)
        for p in indices[row][: min(bound, topk)]:
            entry = table[b][p // block_size] if 0 <= p < block_size * len(table[b]) else -1
            slots.append(-1 if entry < 0 else entry * block_size + p % block_size)
        indptr.append(len(slots))
    return requests, indptr, slots


class Written:
    """Persistent buffers beside what each must hold; None is unspecified."""

    def __init__(self, capacity: int, topk: int) -> None:
        self.capacity, self.topk = capacity, topk
        self.buffers = PersistentBuffers(capacity, topk, DEVICE)
        self.requests: list[int] = [-1] * capacity
        self.slots: list[int | None] = [-1] * (capacity * topk)
        self.previous = 0
        self.addresses: set[tuple[int, ...]] = set()

    def check(self, step: Step, rng: random.Random, dtype: torch.dtype = torch.int32) -> None:
        """Run a step and compare the whole buffers."""
        topk, num_tokens, block_size = self.topk, len(step.tokens()), rng.choice((1, 3, 16))
        width = rng.choice((0, 1, 9))
        table = table_of(rng, len(step.query_lens), width, dtype, 2**31 // block_size)
        live = max(1, width * block_size + 2)
        garbage = (-(2**31), -1, 0, 2**31 - 1)
        indices = [
            [rng.randrange(-1, live) if j < bound else rng.choice(garbage) for j in range(topk)]
            for _, bound in step.tokens()
        ]
        held = torch.tensor(indices, dtype=torch.int32, device=DEVICE).reshape(num_tokens, topk)
        actual = self.buffers(
            **step.tensors(dtype), topk_indices=held, block_table=table, block_size=block_size
        )
        requests, indptr, slots = expected_keys(step, topk, indices, table.tolist(), block_size)
        stop = max(self.previous, num_tokens)
        self.requests[:stop] = requests + [-1] * (stop - num_tokens)
        unspecified: list[int | None] = [None] * (num_tokens * topk - len(slots))
        self.slots[: stop * topk] = [*slots, *unspecified, *[-1] * ((stop - num_tokens) * topk)]
        self.previous = num_tokens
        assert actual.token_to_request.tolist() == self.requests
        assert actual.kv_indptr.tolist() == indptr + indptr[-1:] * (self.capacity - num_tokens)
        pairs = zip(actual.kv_indices.tolist(), self.slots, strict=True)
        assert all(expected in (value, None) for value, expected in pairs), step
        self.addresses.add(tuple(buffer.data_ptr() for buffer in actual))
        assert len(self.addresses) == 1

    def spoil(self, first: int) -> None:
        """Poison what lies beyond a row, where nothing may be written."""
        held = self.buffers(
            **Step([], []).tensors(),
            topk_indices=torch.empty((0, self.topk), dtype=torch.int32, device=DEVICE),
            block_table=torch.empty((0, 0), dtype=torch.int32, device=DEVICE),
            block_size=1,
        )
        held.token_to_request[first:] = POISON
        held.kv_indices[first * self.topk :] = POISON
        self.requests[first:] = [POISON] * (self.capacity - first)
        self.slots[first * self.topk :] = [POISON] * ((self.capacity - first) * self.topk)
        self.requests[:first] = [-1] * first
        self.slots[: first * self.topk] = [-1] * (first * self.topk)
        self.previous = 0


@pytest.mark.parametrize("topk", [1, 2, 7, 33])
def test_buffers_hold_the_step_and_no_trace_of_the_last(topk: int) -> None:
    rng = random.Random(topk)
    steps = [drawn(rng, topk, 6) for _ in range(25)]
    written = Written(max(len(step.tokens()) for step in steps) + 3, topk)
    for step in steps:
        written.check(step, rng, rng.choice(INDEX_DTYPES))


def test_buffers_take_steps_longer_than_a_tile() -> None:
    rng = random.Random(0)
    written = Written(3100, 3)
    for step in (Step([0, 5], [1500, 1490], 10), Step([7], [1]), Step([0, 0, 9], [0, 2050, 30], 5, 0)):
        written.check(step, rng)


def test_buffers_take_the_largest_topk() -> None:
    rng = random.Random(0)
    written = Written(6, 2048)
    for step in (Step([2040, 5000, 0], [2, 1, 3]), Step([0], [1])):
        written.check(step, rng)


def test_nothing_beyond_the_extents_is_written() -> None:
    rng = random.Random(3)
    written = Written(12, 2)
    written.spoil(6)
    for count in (2, 6, 3, 0, 5):
        written.check(Step([4] * count, [1] * count), rng)
    written.spoil(2)
    for count in (2, 1):
        written.check(Step([4] * count, [1] * count), rng)


def test_a_row_outside_the_table_has_no_slots() -> None:
    buffers = PersistentBuffers(2, 1, DEVICE)
    step = Step([0, 0], [1, 1])
    indices = torch.zeros((2, 1), dtype=torch.int32, device=DEVICE)
    table = torch.tensor([[3]], device=DEVICE)
    kept = buffers(**step.tensors(), topk_indices=indices, block_table=table, block_size=4)
    assert lists(kept) == [[0, 1], [0, 1, 2], [12, -1]]


def test_a_captured_call_clears_to_the_capacity_and_so_do_those_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = random.Random(4)
    written = Written(6, 2)
    written.spoil(2)
    monkeypatch.setattr(written.buffers, "_was_captured", True)
    for _ in range(2):
        written.previous = 6
        written.check(Step([4], [1]), rng)
