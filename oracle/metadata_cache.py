"""The sparse schedule from a cache: equal to a fresh build, rebuilt unless its key is known and unchanged."""

from collections.abc import Sequence
from typing import NamedTuple

from cumae.oracle.sparse_schedule import sparse_schedule


class MetadataCache(NamedTuple):
    """The outputs of ``SparseSchedule``, and ``rebuilt`` int32 [1]: 1 if this step built them, else 0."""

    work_indptr: list[int]
    work_token: list[int]
    work_start: list[int]
    work_stop: list[int]
    num_splits: list[int]
    rebuilt: list[int]


class ScheduleKey(NamedTuple):
    """The key under which a cache keeps a schedule.

    ``requests``: (query_len, min(context_len, topk - 1)) of each request with query_len > 0, in order.
    """

    topk: int
    split_size: int
    num_workers: int
    num_tokens_padded: int
    requests: tuple[tuple[int, int], ...]


def metadata_cache(
    context_lens: Sequence[int],
    query_lens: Sequence[int],
    num_tokens_padded: int,
    topk: int,
    split_size: int,
    num_workers: int,
    previous_context_lens: Sequence[int] | None,
    previous_query_lens: Sequence[int] | None,
    previous_num_tokens_padded: int,
    host_lens: bool = True,
) -> MetadataCache:
    """Return the schedule of the step, and whether the step had to build it.

    Lengths, padding and errors are as for ``sparse_schedule``; ``topk``, ``split_size`` and ``num_workers``
    are the same as in the previous step. ``previous_context_lens`` and ``previous_query_lens`` are None if
    there was no previous step, or if the host did not know its lengths. ``host_lens``: whether the host knows
    the lengths of this step.

    ``rebuilt`` is 0 if both keys are known and equal, else 1: an unknown key is a miss.
    Sources: vllm#42982, vllm#47042, vllm#47766 (one key for different schedules).

    >>> before = dict(previous_context_lens=[9, 0, 0], previous_query_lens=[1, 0, 2])
    >>> step = dict(topk=2, split_size=1, num_workers=1, num_tokens_padded=3, previous_num_tokens_padded=3)
    >>> metadata_cache([10, 0, 0], [1, 0, 2], **step, **before)[1:]
    ([0, 0, 1, 2, 2, -1], [0, 1, 0, 0, 1, 0], [1, 2, 1, 1, 2, 0], [2, 1, 2], [0])
    >>> metadata_cache([10, 0, 1], [1, 0, 2], **step, **before).rebuilt
    [1]
    """
    schedule = sparse_schedule(context_lens, query_lens, num_tokens_padded, topk, split_size, num_workers)
    kept = False
    if host_lens and previous_context_lens is not None and previous_query_lens is not None:
        before = schedule_key(
            previous_context_lens,
            previous_query_lens,
            previous_num_tokens_padded,
            topk,
            split_size,
            num_workers,
        )
        kept = before == schedule_key(
            context_lens, query_lens, num_tokens_padded, topk, split_size, num_workers
        )
    return MetadataCache(*schedule, rebuilt=[0 if kept else 1])


def schedule_key(
    context_lens: Sequence[int],
    query_lens: Sequence[int],
    num_tokens_padded: int,
    topk: int,
    split_size: int,
    num_workers: int,
) -> ScheduleKey:
    """Return a key that differs whenever the schedules of two steps differ.

    The schedule depends on the lengths only through the kv_len of each row. Token i of a request attends to
    ``min(context_len + i + 1, topk)`` keys. If the context has at least ``topk - 1`` tokens, this is topk for
    every i >= 0. So ``min(context_len, topk - 1)`` gives the same kv_lens as ``context_len``, and together
    with query_len it gives all of them. A request without a token has no row. The key lists the requests in
    order and sums nothing over them, so the kv_len of every row can be read back from it. With the other four
    entries the schedule follows: equal keys mean equal schedules. The reverse is false: one chunk of two
    tokens has the same rows as two chunks of one token.

    A decode whose context is at least ``topk - 1`` keeps its key as it grows.

    >>> schedule_key([6, 0, 3], [1, 0, 2], num_tokens_padded=4, topk=5, split_size=2, num_workers=8)
    ScheduleKey(topk=5, split_size=2, num_workers=8, num_tokens_padded=4, requests=((1, 4), (2, 3)))
    """
    requests: list[tuple[int, int]] = []
    for context_len, query_len in zip(context_lens, query_lens, strict=True):
        if query_len > 0:
            requests.append((query_len, min(context_len, topk - 1)))
    return ScheduleKey(topk, split_size, num_workers, num_tokens_padded, tuple(requests))
