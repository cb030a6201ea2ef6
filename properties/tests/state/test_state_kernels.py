"""The kernels that keep state between steps, against token-by-token references of their own."""

import importlib
import random
from collections.abc import Iterator, Sequence

import pytest
import torch

from cumae.gpu_impl import MetadataCache, PersistentBuffers, write_sparse_schedule
from cumae.properties.interpreter.hooks import watching
from cumae.properties.running.device import interpreting
from cumae.properties.tests.steps import (
    DEVICE,
    INDEX_DTYPES,
    POISON,
    Step,
    drawn,
    expected_schedule,
    lists,
)


@pytest.fixture(autouse=True, params=[None, 1] if interpreting() else [None])
def _inside_every_tensor_in_any_order(request: pytest.FixtureRequest) -> Iterator[None]:
    """Programs run in a seeded order too; no lane may lie outside its tensor."""
    if not interpreting():
        yield
        return
    with watching(request.param) as watch:
        yield
    assert watch.outside == []


def check_schedule(step: Step, topk: int, split_size: int, num_workers: int, dtype: torch.dtype) -> None:
    expected = expected_schedule(step, topk, split_size, num_workers)
    held = [torch.full((len(e) + 2,), POISON, dtype=torch.int32, device=DEVICE) for e in expected]
    inputs = step.tensors(dtype)
    write_sparse_schedule(
        **inputs,
        topk=topk,
        split_size=split_size,
        num_workers=num_workers,
        **dict(
            zip(
                ("work_indptr", "work_token", "work_start", "work_stop", "num_splits"),
                (buffer[1:-1] for buffer in held),
                strict=True,
            )
        ),
    )
    assert lists(held) == [[POISON, *e, POISON] for e in expected], (step, topk, split_size, num_workers)
    for name, tensor in step.tensors(dtype).items():
        assert torch.equal(tensor, inputs[name])


@pytest.mark.parametrize("topk", [1, 2, 7, 2048])
@pytest.mark.parametrize("split_size", [1, 3, 64, 256])
def test_a_schedule_is_that_of_the_definition(topk: int, split_size: int) -> None:
    rng = random.Random(1000 * topk + split_size)
    for num_workers in (1, 3, 132, 3, 132):
        small = topk // split_size > 100
        check_schedule(
            drawn(rng, topk, 3 if small else 40), topk, split_size, num_workers, rng.choice(INDEX_DTYPES)
        )


@pytest.mark.parametrize(
    ("num_tokens", "topk", "split_size"),
    [(1023, 7, 3), (1024, 7, 7), (1025, 7, 3), (3000, 2, 64), (3000, 2048, 256), (3000, 20, 1)],
)
def test_a_schedule_longer_than_a_tile_is_that_of_the_definition(
    num_tokens: int, topk: int, split_size: int
) -> None:
    rng = random.Random(num_tokens)
    query_lens = [0, num_tokens // 2]
    while sum(query_lens) < num_tokens - 5:
        query_lens.append(min(rng.choice((0, 1, 3, 50)), num_tokens - 5 - sum(query_lens)))
    context_lens = [rng.choice((0, 2, topk, 9999)) for _ in query_lens]
    check_schedule(Step(context_lens, query_lens, 5, 0), topk, split_size, 132, torch.int32)


def test_sums_of_more_tiles_than_a_chunk_carry(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = importlib.import_module("cumae.gpu_impl.key_counts")
    monkeypatch.setattr(counts, "TILES_PER_CHUNK", 2)
    check_schedule(Step([0, 3], [2000, 3300], 30), 5, 2, 3, torch.int64)


@pytest.mark.parametrize("step", [Step([], []), Step([4, 0], [0, 0])])
def test_a_step_without_rows_writes_a_zero_indptr(step: Step) -> None:
    assert expected_schedule(step, 7, 3, 3) == [[0, 0, 0, 0], [], [], [], []]
    check_schedule(step, 7, 3, 3, torch.int32)


def test_padding_alone_has_no_items() -> None:
    check_schedule(Step([], [], 3), 7, 3, 2, torch.int32)
    check_schedule(Step([9, 0], [0, 0], 3, 0), 7, 3, 2, torch.int32)


def expected_rebuilds(trace: Sequence[Step], topk: int) -> list[int]:
    """Return 1 where the key of SPEC section 9 differs from that of the step before."""
    keys = [
        (
            len(step.tokens()),
            [(q, min(c, topk - 1)) for c, q in zip(step.context_lens, step.query_lens, strict=True) if q],
        )
        for step in trace
    ]
    return [int(t == 0 or key != keys[t - 1]) for t, key in enumerate(keys)]


def check_cache(trace: Sequence[Step], topk: int, split_size: int = 2, num_workers: int = 3) -> list[int]:
    most = max(len(step.tokens()) for step in trace)
    cache = MetadataCache(most, topk, split_size, num_workers, DEVICE)
    rebuilt, addresses = [], set()
    for t, step in enumerate(trace):
        dtype = INDEX_DTYPES[t % 2]
        schedule = cache(*step.host(dtype), **step.tensors())
        assert lists(schedule[:5]) == expected_schedule(step, topk, split_size, num_workers)
        rebuilt.append(schedule.rebuilt)
        if step.tokens():
            addresses.add(tuple(view.data_ptr() for view in schedule[:5]))
    assert len(addresses) <= 1
    assert cache.num_rebuilds == sum(rebuilt)
    assert rebuilt == expected_rebuilds(trace, topk)
    return rebuilt


@pytest.mark.parametrize("topk", [1, 2, 7])
def test_a_cached_schedule_is_a_fresh_one_and_rebuilds_where_the_key_changes(topk: int) -> None:
    rng = random.Random(topk)
    trace: list[Step] = []
    while len(trace) < 60:
        step = drawn(rng, topk, 4)
        trace.append(step)
        for _ in range(rng.randrange(4)):
            step = step._replace(context_lens=[c + q for c, q in zip(*step[:2], strict=True)])
            trace.append(step)
    rebuilt = check_cache(trace, topk)
    assert 0 < sum(rebuilt) < len(rebuilt)


def test_the_smallest_harmful_collision_of_42982_rebuilds() -> None:
    assert check_cache([Step([0], [2]), Step([1], [2])], 2) == [1, 1]


def test_the_collisions_of_42982_rebuild() -> None:
    assert check_cache([Step([0], [8]), Step([8], [8])], 8) == [1, 1]
    assert check_cache([Step([4, 3], [1, 4]), Step([1, 6], [4, 1])], 8) == [1, 1]
    assert check_cache([Step([0, 0], [1, 4]), Step([0, 0], [4, 1])], 8) == [1, 1]


def test_a_steady_decode_beyond_topk_does_not_rebuild() -> None:
    trace = [Step([7 + t, 900 + t, 0], [1, 1, 0], 2) for t in range(50)]
    assert sum(check_cache(trace, 7)) == 1


def test_ten_thousand_steady_steps_beyond_topk_rebuild_nothing() -> None:
    step = Step([7, 900, 0], [1, 1, 0], 2)
    cache = MetadataCache(4, 7, 2, 3, DEVICE)
    inputs, (contexts, queries) = step.tensors(), step.host()
    assert cache(contexts, queries, **inputs).rebuilt == 1
    rebuilt = 0
    for _ in range(10_000):
        contexts[:2] += 1
        inputs["context_lens"][:2] += 1
        held = cache(contexts, queries, **inputs)
        rebuilt += held.rebuilt
    assert rebuilt == 0
    grown = step._replace(context_lens=contexts.tolist())
    assert lists(held[:5]) == expected_schedule(grown, 7, 2, 3)


def test_a_decode_below_topk_rebuilds_until_it_reaches_it() -> None:
    assert check_cache([Step([2 + t], [1]) for t in range(6)], 5) == [1, 1, 1, 0, 0, 0]


def test_idle_requests_do_not_rebuild_and_padding_does() -> None:
    steps = [
        Step([9, 5], [1, 0]),
        Step([9, 6], [1, 0]),
        Step([9], [1]),
        Step([9], [1], 1),
        Step([9], [1], 1, 0),
    ]
    assert check_cache(steps, 4) == [1, 0, 0, 1, 0]


def test_shrinking_and_growing_steps_rebuild() -> None:
    assert check_cache([Step([9] * n, [1] * n) for n in (5, 2, 0, 2, 5, 5)], 4) == [1, 1, 1, 1, 1, 0]


@pytest.mark.parametrize("missing", [(0,), (1,), (0, 1)])
def test_without_host_lengths_the_cache_never_hits(missing: tuple[int, ...]) -> None:
    step = Step([9, 9], [1, 1])
    cache = MetadataCache(4, 4, 2, 3, DEVICE)
    partly: list[torch.Tensor | None] = list(step.host())
    for place in missing:
        partly[place] = None
    known = step.host()
    rebuilt = [
        cache(*lens, **step.tensors()).rebuilt for lens in (known, known, partly, partly, known, known)
    ]
    assert rebuilt == [1, 0, 1, 1, 1, 0]
    assert cache.num_rebuilds == 4


def test_host_lengths_changed_in_place_are_noticed() -> None:
    step = Step([0], [2])
    cache = MetadataCache(4, 2, 1, 1, DEVICE)
    context_lens, query_lens = step.host()
    assert cache(context_lens, query_lens, **step.tensors()).rebuilt == 1
    context_lens += 1
    step = Step([1], [2])
    assert cache(context_lens, query_lens, **step.tensors()).num_splits.tolist() == [2, 2]


def test_a_build_that_fails_leaves_nothing_to_hit(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*arguments: object) -> None:
        raise RuntimeError("no launch")

    first, second = Step([0], [2]), Step([1], [2])
    cache = MetadataCache(4, 2, 1, 1, DEVICE)
    cache(*first.host(), **first.tensors())
    with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="no launch"):
        patch.setattr("cumae.gpu_impl.metadata_cache.write_sparse_schedule", failing)
        cache(*second.host(), **second.tensors())
    assert cache(*first.host(), **first.tensors()).rebuilt == 1
    assert cache.num_rebuilds == 2


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
