"""A sparse schedule that is kept between steps while its key is known and unchanged."""

from typing import NamedTuple

import numpy as np
import torch

from cumae.gpu_impl.arguments import INDEX_DTYPES, check_int, check_tensor
from cumae.gpu_impl.key_counts import check_tokens
from cumae.gpu_impl.sparse_schedule import max_splits_of, write_sparse_schedule


class CachedSchedule(NamedTuple):
    """Views of the cache's buffers, a schedule in front; rebuilt is 1 if this step wrote them, else 0."""

    work_indptr: torch.Tensor
    work_token: torch.Tensor
    work_start: torch.Tensor
    work_stop: torch.Tensor
    num_splits: torch.Tensor
    rebuilt: int


class MetadataCache:
    """The sparse schedule of each step, at addresses that never change.

    max_num_tokens is the largest T, topk, split_size and num_workers are those of `write_sparse_schedule`.
    num_rebuilds counts the steps that rebuilt.

    A step rebuilds iff its key differs from that of the step before: topk, split_size, num_workers, T and,
    for each request with query_len > 0 in order, (query_len, min(context_len, topk - 1)). Equal keys imply
    equal schedules: the schedule is a function of split_size, num_workers and the kv_len of each of the T
    rows. The query_lens in order say which row is which token of which request of the key, and leave the rest
    to padding, where kv_len is 0; a request without tokens has no row. With c = min(context_len, topk - 1),
    min(context_len + i + 1, topk) equals min(c + i + 1, topk): if context_len <= topk - 1 they are the same
    expression, otherwise both are topk for each i >= 0. A shorter key is wrong: the key of vllm#42982, sums
    and maxima of lengths, is the same for a prompt of two tokens at context 0 and at context 1, where topk 2
    gives kv_lens 1, 2 and then 2, 2.

    A capture always builds, because its replays cannot compare keys. A replay rewrites the buffers without
    the host, so from the first capture on every step rebuilds.

    >>> token_to_request, cu_seqlens_q = torch.tensor([0, 2, 2]), torch.tensor([0, 1, 1, 3])
    >>> query_lens = torch.tensor([1, 0, 2], device="cpu")
    >>> cache = MetadataCache(8, 4, 2, 3, token_to_request.device)
    >>> for lens in ([6, 9, 0], [7, 9, 0], [7, 9, 1]):
    ...     host, here = torch.tensor(lens, device="cpu"), torch.tensor(lens)
    ...     schedule = cache(host, query_lens, token_to_request, cu_seqlens_q, here)
    ...     print(schedule.rebuilt, schedule.num_splits.tolist(), schedule.work_stop.tolist())
    1 [2, 1, 1] [2, 4, 1, 2, 0, 0]
    0 [2, 1, 1] [2, 4, 1, 2, 0, 0]
    1 [2, 1, 2] [2, 4, 2, 2, 3, 0]
    >>> cache.num_rebuilds
    2
    """

    def __init__(
        self,
        max_num_tokens: int,
        topk: int,
        split_size: int,
        num_workers: int,
        device: torch.device | str,
    ) -> None:
        check_int("max_num_tokens", max_num_tokens, 0)
        self._max_splits = max_splits_of(topk, split_size, num_workers, max_num_tokens)
        self._max_num_tokens = max_num_tokens
        self._options = (topk, split_size, num_workers)
        self._most_context = np.array(topk - 1, dtype=np.int32)
        capacity = max_num_tokens * self._max_splits
        indptr, splits = (
            torch.empty(size, dtype=torch.int32, device=device) for size in (num_workers + 1, max_num_tokens)
        )
        token, start, stop = (torch.empty(capacity, dtype=torch.int32, device=device) for _ in range(3))
        self._buffers = CachedSchedule(indptr, token, start, stop, splits, rebuilt=0)
        self._device, self._is_on_gpu = indptr.device, indptr.is_cuda
        self._kept, self._num_tokens = self._buffers, max_num_tokens
        self._key: tuple[int, bytes, bytes] | None = None
        self._was_captured = False
        self.num_rebuilds = 0

    def __call__(
        self,
        context_lens_cpu: torch.Tensor | None,
        query_lens_cpu: torch.Tensor | None,
        token_to_request: torch.Tensor,
        cu_seqlens_q: torch.Tensor,
        context_lens: torch.Tensor,
    ) -> CachedSchedule:
        """Return the schedule of this step, as `write_sparse_schedule` would, at the addresses of every step.

        context_lens_cpu, query_lens_cpu [R] int32 or int64, in tokens: host copies, 0 for padding requests;
        they are read now and not kept. None for either misses and leaves nothing to hit. The others are those
        of `write_sparse_schedule`, with T <= max_num_tokens; on a hit they are not read. Does not
        synchronise, or allocate on the device.
        Raises ValueError for a wrong dtype, device, shape or stride, for host and device lengths that differ
        in number, and for too many tokens, before anything is written.
        """
        check_tokens(token_to_request, cu_seqlens_q, context_lens, self._device)
        num_tokens = token_to_request.numel()
        check_int("token_to_request.numel()", num_tokens, 0, self._max_num_tokens)
        for name, lens in (("context_lens_cpu", context_lens_cpu), ("query_lens_cpu", query_lens_cpu)):
            if lens is None:
                continue
            check_tensor(name, lens, INDEX_DTYPES, (context_lens.numel(),), contiguous=False)
            if not lens.is_cpu:
                raise ValueError(f"{name}.device = {lens.device}, must be cpu: it is read at once")
        if num_tokens != self._num_tokens:
            self._kept, self._num_tokens = self._views(num_tokens), num_tokens
        if self._is_on_gpu and torch.cuda.is_current_stream_capturing():
            self._was_captured = True
        key = None
        if context_lens_cpu is not None and query_lens_cpu is not None and not self._was_captured:
            key = self._key_of(num_tokens, context_lens_cpu, query_lens_cpu)
            if key == self._key:
                return self._kept
        # The key is cleared first: a launch that fails may leave half a schedule.
        self._key = None
        views = self._kept[:-1]
        write_sparse_schedule(token_to_request, cu_seqlens_q, context_lens, *self._options, *views)
        self._key = key
        self.num_rebuilds += 1
        return self._kept._replace(rebuilt=1)

    def _views(self, num_tokens: int) -> CachedSchedule:
        """Return the parts of the buffers that a step of so many tokens has."""
        indptr, token, start, stop, splits, _ = self._buffers
        capacity = num_tokens * self._max_splits
        items = token[:capacity], start[:capacity], stop[:capacity]
        return CachedSchedule(indptr, *items, splits[:num_tokens], rebuilt=0)

    def _key_of(
        self, num_tokens: int, context_lens: torch.Tensor, query_lens: torch.Tensor
    ) -> tuple[int, bytes, bytes]:
        """Return what of the key can change, lengths as int32: NumPy's calls cost less than torch's."""
        queries, contexts = query_lens.numpy(), np.minimum(context_lens.numpy(), self._most_context)
        if np.count_nonzero(queries) < len(queries):
            is_live = queries > 0
            queries, contexts = queries[is_live], contexts[is_live]
        if queries.dtype != np.int32:
            queries = queries.astype(np.int32)
        if contexts.dtype != np.int32:
            contexts = contexts.astype(np.int32)
        return num_tokens, queries.tobytes(), contexts.tobytes()
