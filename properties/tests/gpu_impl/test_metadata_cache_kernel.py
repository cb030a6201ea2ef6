"""The cached schedule: when it is built anew."""

import random
from collections.abc import Sequence

import pytest
import torch

from cumae.gpu_impl import MetadataCache
from cumae.properties.tests.given.steps import DEVICE, INDEX_DTYPES, Step, drawn, expected_schedule, lists

pytestmark = pytest.mark.usefixtures("inside_every_tensor_in_any_order")


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
