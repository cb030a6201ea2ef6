"""The keys of each token, cut into splits, and the splits divided among workers."""

from collections.abc import Sequence
from typing import NamedTuple

from cumae.oracle.model.fault import Fault
from cumae.oracle.model.marks import ANY, Mark
from cumae.oracle.model.rules import require, require_int


class SparseSchedule(NamedTuple):
    """int32 ``work_indptr`` [W+1]; ``work_token``, ``work_start``, ``work_stop`` [items]; ``num_splits`` [T].

    Work item j is keys ``[work_start[j], work_stop[j])`` of row ``work_token[j]``; worker w does items
    ``[work_indptr[w], work_indptr[w + 1])``. There is room for ``T * ceil(topk / split_size)`` items.
    """

    work_indptr: list[int]
    work_token: list[int]
    work_start: list[int]
    work_stop: list[int]
    num_splits: list[int]


class AnySchedule(NamedTuple):
    """int32 ``work_token``, ``work_start``, ``work_stop`` [items]; ``schedule_faults`` judges all three."""

    work_token: list[Mark]
    work_start: list[Mark]
    work_stop: list[Mark]


def sparse_schedule(
    context_lens: Sequence[int],
    query_lens: Sequence[int],
    num_tokens_padded: int,
    topk: int,
    split_size: int,
    num_workers: int,
) -> SparseSchedule:
    """Return the work items of a step in order of row and split, and the first item of each worker.

    ``context_lens``, ``query_lens`` int [R] in tokens, 0 for padded requests. A token attends to at most
    ``topk`` keys, counted from 0 in the order in which they were selected, ``split_size`` of them at a
    time. The first ``n_items % num_workers`` workers do one item more than the others.

    Padding rows have no item and 0 splits. Behind the items ``work_token`` is -1 (none) and
    ``work_start``, ``work_stop`` are 0.

    Raises ``ValueError`` unless ``topk``, ``split_size`` and ``num_workers`` are at least 1 and the
    tokens fit their rows. Source: vllm#42982 (a cache returned the schedule of another step).

    >>> work = sparse_schedule([2, 0, 0], [2, 0, 1], 4, topk=3, split_size=2, num_workers=2)
    >>> work.work_token, work.num_splits
    ([0, 0, 1, 1, 2, -1, -1, -1], [2, 2, 1, 0])
    >>> work.work_start, work.work_stop
    ([0, 2, 0, 2, 0, 0, 0, 0], [2, 3, 2, 3, 1, 0, 0, 0])
    >>> work.work_indptr
    [0, 3, 5]
    """
    require_int("split_size", split_size, 1)
    require_int("num_workers", num_workers, 1)
    work_token: list[int] = []
    work_start: list[int] = []
    work_stop: list[int] = []
    num_splits: list[int] = []
    for row, kv_len in enumerate(kv_lens_of(context_lens, query_lens, num_tokens_padded, topk)):
        starts = range(0, kv_len, split_size)
        work_token += [row] * len(starts)
        work_start += starts
        work_stop += [min(start + split_size, kv_len) for start in starts]
        num_splits.append(len(starts))
    num_each, num_left = divmod(len(work_token), num_workers)
    work_indptr = [0]
    for worker in range(num_workers):
        num_items = num_each + 1 if worker < num_left else num_each
        work_indptr.append(work_indptr[-1] + num_items)
    unused = num_tokens_padded * -(-topk // split_size) - len(work_token)
    return SparseSchedule(
        work_indptr,
        work_token + [-1] * unused,
        work_start + [0] * unused,
        work_stop + [0] * unused,
        num_splits,
    )


def kv_lens_of(
    context_lens: Sequence[int], query_lens: Sequence[int], num_tokens_padded: int, topk: int
) -> list[int]:
    """Return how many keys each row attends to: those up to its own, ``topk`` at most; 0 on padding.

    >>> kv_lens_of([2, 0, 0], [3, 0, 1], num_tokens_padded=5, topk=4)
    [3, 4, 4, 1, 0]
    """
    require_int("topk", topk, 1)
    kv_lens: list[int] = []
    for context_len, query_len in zip(context_lens, query_lens, strict=True):
        for i in range(query_len):
            kv_lens.append(min(context_len + i + 1, topk))
    rule = f"be >= {len(kv_lens)}, the tokens of the step"
    require(num_tokens_padded >= len(kv_lens), "num_tokens_padded", num_tokens_padded, rule)
    return kv_lens + [0] * (num_tokens_padded - len(kv_lens))


def any_schedule(num_tokens_padded: int, topk: int, split_size: int) -> AnySchedule:
    """Return buffers of the right size for any schedule; ``schedule_faults`` judges their content.

    For a function without ``split_size`` there is room for one item per key, ``T * topk`` items.

    >>> any_schedule(1, topk=3, split_size=2).work_token
    [ANY, ANY]
    """
    require_int("topk", topk, 1)
    require_int("split_size", split_size, 1)
    room: list[Mark] = [ANY] * (num_tokens_padded * -(-topk // split_size))
    return AnySchedule(room, room, room)


def schedule_faults(
    rows: Sequence[int], starts: Sequence[int], stops: Sequence[int], kv_lens: Sequence[int]
) -> list[Fault]:
    """Return a sentence for each fault of a schedule.

    Item j is keys ``[starts[j], stops[j])`` of row ``rows[j]``, in any order. Items are clipped at the
    ``kv_len`` of their row, and empty items are dropped, whatever their row. Then the items of each row must
    partition ``[0, kv_len)``.

    >>> schedule_faults([1, 0, 1, -1], [2, 0, 0, 0], [9, 1, 2, 0], kv_lens=[1, 3, 0])
    []
    >>> schedule_faults([0, 1, 1], [0, 0, 2], [2, 2, 3], kv_lens=[3, 2, 1])
    ['row 0: keys [2, 3) are in no item', 'row 2: keys [0, 1) are in no item']
    """
    faults: list[Fault] = []
    items: list[list[tuple[int, int]]] = [[] for _ in kv_lens]
    for j, (row, start, stop) in enumerate(zip(rows, starts, stops, strict=True)):
        if start >= stop:
            continue
        if not 0 <= row < len(kv_lens):
            faults.append(Fault(f"item {j}: row {row} does not exist: there are {len(kv_lens)}"))
        elif start < 0:
            faults.append(Fault(f"item {j}: keys [{start}, {stop}) begin before key 0"))
        elif start < kv_lens[row]:
            items[row].append((start, min(stop, kv_lens[row])))
    for row, kv_len in enumerate(kv_lens):
        covered = 0
        for start, stop in sorted(items[row]):
            if start > covered:
                faults.append(Fault(f"row {row}: keys [{covered}, {start}) are in no item", row))
            if start < covered:
                text = f"row {row}: keys [{start}, {min(stop, covered)}) are in two items"
                faults.append(Fault(text, row))
            covered = max(covered, stop)
        if covered < kv_len:
            faults.append(Fault(f"row {row}: keys [{covered}, {kv_len}) are in no item", row))
    return faults
