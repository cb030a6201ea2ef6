"""An oracle's answer to a case and the simulation's, in the same plain values."""

from collections.abc import Callable
from typing import Any

from cumae import oracle
from cumae.oracle import ANY, UNTOUCHED, Case, Inputs
from cumae.properties.tests.simulation import (
    cache_groups,
    cuts,
    drafts,
    page_read,
    page_write,
    pages,
    plans,
    router,
    schedules,
    selections,
    steps,
)
from cumae.properties.tests.simulation.tokens import Answer, owners_of

Oracle = Callable[..., Any]

# Operations that a step answers with what the step before left.
_STATEFUL = ("metadata_cache", "persistent_buffers")
ORACLES: dict[str, Oracle] = {n: known for n, known in oracle.OPERATIONS.items() if n not in _STATEFUL}
STATEFUL_ORACLES: dict[str, Oracle] = {name: oracle.OPERATIONS[name] for name in _STATEFUL}
_WORDS = {ANY: "any", UNTOUCHED: "untouched"}


def oracle_answer(function: Oracle, case: Case, previous: Case | None = None) -> Answer:
    """Return the outputs by name, a word for what keeps what it held and for what may be anything."""
    outputs = Inputs(case, previous).call(function)._asdict()
    return {name: [_WORDS.get(value, value) for value in values] for name, values in outputs.items()}


def simulated_answer(operation: str, case: Case, previous: Case | None = None) -> Answer:
    """Return what the token-by-token simulation says."""
    if operation in STATEFUL_ORACLES:
        return _STATEFUL_SIMULATIONS[operation](case, previous)
    return _SIMULATIONS[operation](case)


def _sequence_layout(case: Case) -> Answer:
    return steps.sequence_layout(
        case.batch,
        num_padding_tokens=case.layout.num_padding_tokens,
        num_padding_requests=case.layout.num_padding_requests,
        key_scope=case.options.keys.key_scope,
        compress_ratio=case.options.keys.compress_ratio,
        token_padding=case.options.padding.token_padding,
        dummy_request=case.options.padding.dummy_request,
    )


def _position_ids(case: Case) -> Answer:
    return steps.position_ids(case.batch, num_padding_tokens=case.layout.num_padding_tokens)


def _slot_mapping(case: Case) -> Answer:
    return steps.slot_mapping(
        case.batch,
        num_unused_slots=case.layout.num_padding_tokens + case.layout.num_padding_slots,
        rank=case.options.parallel.rank,
        interleave=case.options.parallel.interleave,
        row_index=case.layout.row_index,
    )


def _causal_windows(case: Case) -> Answer:
    return steps.causal_windows(
        case.batch,
        num_padding_tokens=case.layout.num_padding_tokens,
        key_scope=case.options.keys.key_scope,
        compress_ratio=case.options.keys.compress_ratio,
        window=case.options.keys.window,
        rank=case.options.parallel.rank,
        interleave=case.options.parallel.interleave,
    )


def _prefix_interleave(case: Case) -> Answer:
    kept = [r for r in case.batch.requests if case.options.keys.key_scope == "all" or r.phase == "prefill"]
    num_keys = sum(r.context_len + r.query_len for r in kept)
    return steps.prefix_interleave(
        case.batch,
        capacity=max(0, num_keys + case.layout.key_slack),
        key_scope=case.options.keys.key_scope,
    )


def _cache_write(case: Case) -> Answer:
    return steps.cache_write(
        case.batch,
        num_slots=case.num_cache_blocks * case.batch.block_size,
        rank=case.options.parallel.rank,
        interleave=case.options.parallel.interleave,
        row_index=case.layout.row_index,
    )


def _sparse_schedule(case: Case) -> Answer:
    return schedules.sparse_schedule(
        case.batch,
        num_padding_tokens=case.layout.num_padding_tokens,
        topk=case.options.selection.topk,
        split_size=case.options.schedule.split_size,
        num_workers=case.options.schedule.num_workers,
    )


def _any_schedule(case: Case) -> Answer:
    return schedules.any_schedule(
        case.batch,
        num_padding_tokens=case.layout.num_padding_tokens,
        topk=case.options.selection.topk,
        split_size=case.options.schedule.split_size,
    )


def _topk_to_slots(case: Case) -> Answer:
    return selections.topk_to_slots(
        case.batch,
        Inputs(case)["selected_positions"],
        num_padding_tokens=case.layout.num_padding_tokens,
        topk=case.options.selection.topk,
        rank=case.options.parallel.rank,
        interleave=case.options.parallel.interleave,
        has_workspace=case.options.selection.prefill_workspace,
        workspace_gap=case.options.selection.workspace_gap,
    )


def _compact_topk_slots(case: Case) -> Answer:
    slots = _topk_to_slots(case)["selected_slots"]
    return selections.compact_topk_slots(slots, topk=case.options.selection.topk)


def _chunked_context(case: Case) -> Answer:
    return selections.chunked_context(
        case.batch,
        num_padding_requests=case.layout.num_padding_requests,
        key_scope=case.options.keys.key_scope,
        workspace_tokens=case.workspace_tokens,
        max_context_len=case.max_context_len,
    )


def _any_chunks(case: Case) -> Answer:
    return plans.any_chunks(
        case.batch, workspace_tokens=case.workspace_tokens, interleave=case.options.parallel.interleave
    )


def _metadata_cache(case: Case, previous: Case | None) -> Answer:
    known = previous if previous is not None and previous.layout.host_lens and case.layout.host_lens else None
    return schedules.metadata_cache(
        case.batch,
        known.batch if known else None,
        num_padding_tokens=case.layout.num_padding_tokens,
        num_previous_padding_tokens=known.layout.num_padding_tokens if known else 0,
        topk=case.options.selection.topk,
        split_size=case.options.schedule.split_size,
        num_workers=case.options.schedule.num_workers,
    )


def _persistent_buffers(case: Case, previous: Case | None) -> Answer:
    before = previous.batch.num_tokens + previous.layout.num_padding_tokens if previous else 0
    return schedules.persistent_buffers(
        case.batch,
        Inputs(case)["topk_indices"],
        num_padding_tokens=case.layout.num_padding_tokens,
        num_previous_rows=before,
        num_spare_tokens=case.layout.num_spare_tokens,
        topk=case.options.selection.topk,
    )


def _local_lens(case: Case) -> Answer:
    """Deal the tokens of each request out to the ranks, one by one."""
    world, rows = case.batch.world, []
    for request in case.batch.requests:
        held = [0] * world
        for _, owner in zip(
            range(request.seq_len), owners_of(world, case.options.parallel.interleave), strict=False
        ):
            held[owner] += 1
        rows.append(held)
    rows += [[0] * world] * case.layout.num_padding_requests
    rank = case.options.parallel.rank
    return {
        "local_lens": [held[rank] for held in rows],
        "rank_lens": [count for held in rows for count in held],
    }


def _blocks_in_rows(case: Case) -> list[list[int]]:
    """Return the kernel's blocks of each request, none for a request without a row."""
    parts = range(case.batch.block_size // case.kernel_block_size)
    rows = case.layout.row_index or range(len(case.batch.requests))
    return [
        [-1 if i < 0 else i * len(parts) + part for i in request.block_ids for part in parts] * (row >= 0)
        for row, request in zip(rows, case.batch.requests, strict=True)
    ]


def _table_width(case: Case) -> int:
    table = Inputs(case)["block_table"]
    return len(table[0]) if table else 0


def _page_table(case: Case) -> Answer:
    return pages.page_table(
        case.batch,
        blocks=_blocks_in_rows(case),
        table_width=_table_width(case),
        num_columns=case.num_page_columns,
        num_padding_requests=case.layout.num_padding_requests,
        tokens_per_entry=case.kernel_block_size * case.batch.world,
        window=case.options.keys.window,
    )


def _kv_indices(case: Case) -> Answer:
    return pages.kv_indices(
        case.batch,
        blocks=_blocks_in_rows(case),
        table_width=_table_width(case),
        num_padding_requests=case.layout.num_padding_requests,
        num_entries=case.num_page_indices,
        window=case.options.keys.window,
    )


def _draft_steps(case: Case) -> Answer:
    layout = case.layout
    return drafts.draft_steps(
        case.batch,
        Inputs(case)["num_drafts"][: len(case.batch.requests)],
        num_padding_tokens=layout.num_padding_tokens,
        num_padding_requests=layout.num_padding_requests,
    )


def _allocate_slots(case: Case) -> Answer:
    layout = case.layout
    return drafts.allocate_slots(
        case.batch,
        num_padding_tokens=layout.num_padding_tokens,
        num_padding_requests=layout.num_padding_requests,
    )


_SIMULATIONS: dict[str, Callable[[Case], Answer]] = {
    "sequence_layout": _sequence_layout,
    "position_ids": _position_ids,
    "slot_mapping": _slot_mapping,
    "causal_windows": _causal_windows,
    "prefix_interleave": _prefix_interleave,
    "cache_write": _cache_write,
    "page_write": page_write.page_write,
    "page_read": page_read.page_read,
    "sparse_schedule": _sparse_schedule,
    "any_schedule": _any_schedule,
    "topk_to_slots": _topk_to_slots,
    "compact_topk_slots": _compact_topk_slots,
    "chunked_context": _chunked_context,
    "any_chunks": _any_chunks,
    "grouped_topk": router.grouped_topk,
    "local_lens": _local_lens,
    "page_table": _page_table,
    "kv_indices": _kv_indices,
    "draft_steps": _draft_steps,
    "allocate_slots": _allocate_slots,
    "sequence_chunks": cuts.sequence_chunks,
    "flat_decodes": cuts.flat_decodes,
    **cache_groups.SIMULATIONS,
}
_STATEFUL_SIMULATIONS: dict[str, Callable[[Case, Case | None], Answer]] = {
    "metadata_cache": _metadata_cache,
    "persistent_buffers": _persistent_buffers,
}
