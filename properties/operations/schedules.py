"""Schedules of sparse attention: fresh, of any kind, cached, and persistent buffers."""

from collections.abc import Mapping, Sequence

from cumae import oracle
from cumae.oracle import Case, Inputs
from cumae.properties.dialects import Output
from cumae.properties.operations.operation import Operation


def _work_items(case: Case) -> tuple[int, ...]:
    return (case.max_work_items,)


def _of_item(name: str, rule: str) -> Output:
    """Return an output with an entry for each work item that fits."""
    return Output(name, "int32", "work_item", rule, shape=_work_items)


_SCHEDULE = (
    Output(
        "work_indptr",
        "int32",
        "worker_start",
        "worker w begins at w * (n // W) + min(w, n % W) of n items over W workers",
        shape=lambda case: (case.options.schedule.num_workers + 1,),
    ),
    _of_item("work_token", "the row whose keys the item holds, -1 for no item"),
    _of_item("work_start", "the first key of the item, counted within its row"),
    _of_item("work_stop", "one past the last key, min(start + split_size, kv_len)"),
    Output("num_splits", "int32", "token", "ceil(kv_len / split_size), 0 on padding"),
)
SPARSE_SCHEDULE = Operation(
    "sparse_schedule",
    oracle.sparse_schedule,
    _SCHEDULE,
    frozenset({"topk", "split_size", "num_workers"}),
    "a token attends to kv_len = min(position + 1, topk) keys, cut into splits, dealt to workers in order",
    ("cumae.gpu_impl:write_sparse_schedule",),
)


def _faults(inputs: Inputs, outputs: Mapping[str, list[int]]) -> Sequence[str]:
    missing = [name for name in ("work_token", "work_start", "work_stop") if name not in outputs]
    if missing:
        return [f"`{missing[0]}` is not among the outputs: items are judged by row, start and stop"]
    kv_lens = inputs.call(oracle.kv_lens_of)
    return oracle.schedule_faults(outputs["work_token"], outputs["work_start"], outputs["work_stop"], kv_lens)


ANY_SCHEDULE = Operation(
    "any_schedule",
    oracle.any_schedule,
    (
        _of_item("work_token", "the row whose keys the item holds"),
        _of_item("work_start", "the first key of the item within its row"),
        _of_item("work_stop", "one past the last key; at most start: no item"),
    ),
    frozenset({"topk", "split_size", "num_workers"}),
    "the items of each row, clipped to its kv_len, hold each of its keys once",
    judge=_faults,
)
METADATA_CACHE = Operation(
    "metadata_cache",
    oracle.metadata_cache,
    (
        *_SCHEDULE,
        Output(
            "rebuilt",
            "int32",
            "step",
            "1 unless the key is known and equals that of the step before",
            optional=True,
        ),
    ),
    frozenset({"topk", "split_size", "num_workers", "host_lens"}),
    "a cached schedule equals a fresh build, and is kept while nothing it depends on changes",
    ("cumae.gpu_impl:MetadataCache",),
)
PERSISTENT_BUFFERS = Operation(
    "persistent_buffers",
    oracle.persistent_buffers,
    (
        Output(
            "request_of_row",
            "int32",
            "token",
            "the request of the token, -1 on padding and on rows that only the step before had",
            shape=lambda case: (case.max_num_tokens,),
            starts=-1,
        ),
        Output(
            "kv_indptr",
            "int32",
            "token_start",
            "the running sum of kv_len = min(position + 1, topk), its last value to the end",
            shape=lambda case: (case.max_num_tokens + 1,),
            starts=0,
        ),
        Output(
            "kv_indices",
            "int32",
            "selected_key",
            "the slot of each selected position, -1 on rows that only the step before had",
            shape=lambda case: (case.max_num_tokens * case.options.selection.topk,),
            starts=-1,
        ),
    ),
    frozenset({"topk", "selection_order", "num_spare_tokens", "missing_blocks"}),
    "a step writes its rows and all of `kv_indptr`, and clears those rows that only the step before had",
    ("cumae.gpu_impl:PersistentBuffers",),
)
