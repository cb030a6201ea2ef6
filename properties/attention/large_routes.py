"""The routes of ``large``: which rows each query attends to, as tensors of indices."""

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from cumae.oracle import Case
from cumae.oracle.model.rules import require
from cumae.properties.attention.answers import Answer
from cumae.properties.attention.judge import error_bound
from cumae.properties.attention.large import Dims, LargeStep, merged

WRITES = ("slot_mapping", "position_ids")


class Compared(NamedTuple):
    """The rows that a route computed, and their largest error over the bound; nan where garbage was read."""

    route: str
    operations: tuple[str, ...]
    rows: int
    worst: float


def compared(
    case: Case,
    answers: Mapping[str, Answer],
    device: str,
    dims: Dims,
    *,
    through: Collection[str] | None = None,
) -> list[Compared]:
    """Return what comes of each route, of those through one of some operations where they are named.

    Raises ``ValueError`` unless the case computes something on one rank, with all keys as they are and none
    of them in a workspace.
    """
    options = case.options
    plain = (case.batch.world, options.keys.compress_ratio, options.keys.window, options.keys.key_scope) == (
        1,
        1,
        0,
        "all",
    )
    plain = plain and not options.selection.prefill_workspace
    require(
        plain, "case", options, "have one rank, compress_ratio 1, window 0, key_scope all and no workspace"
    )
    require(case.batch.num_tokens > 0, "num_tokens", case.batch.num_tokens, "be >= 1")
    step = LargeStep(case, answers, device, dims)
    found, expected = [], {"all": _dense(step), "selected": _dense_selected(step)}
    is_prefill = torch.tensor([r.phase == "prefill" for r in case.batch.requests], device=device)
    for name, (operations, outputs, sees) in ROUTES.items():
        if through is not None and not set(through) & {*WRITES, *operations}:
            continue
        actual, wanted = outputs(step), expected[sees]
        if name == "windows":
            rows = is_prefill[step.ints([b for b, _ in step.places])]
            actual, wanted = actual[rows], wanted[rows]
        worst = float((actual - wanted).abs().max()) if actual.numel() else 0.0
        num_keys = max(case.batch.requests, key=lambda r: r.seq_len).seq_len
        score = 2.0 * (dims.latent + dims.rope) ** 0.5
        bound = error_bound(num_keys, num_keys, dims.latent + dims.rope, score)
        found.append(Compared(name, (*WRITES, *operations), len(actual), worst / bound))
    return found


def _dense(step: LargeStep) -> Tensor:
    """Return dense causal attention of every token of the step, request by request."""
    outputs = [step.truth.new_zeros((0, step.dims.heads, step.dims.latent))]
    first_row = 0
    for b, request in enumerate(step.case.batch.requests):
        rows = step.truth[step.starts[b] : step.starts[b + 1]]
        queries = step.true_queries[first_row : first_row + request.query_len]
        first_row += request.query_len
        for i, query in enumerate(torch.split(queries, 64)):
            positions = torch.arange(len(query), device=step.device) + request.context_len + 64 * i
            hidden = torch.arange(len(rows), device=step.device) > positions[:, None]
            scores = torch.einsum("thd,kd->thk", query, rows) / rows.shape[1] ** 0.5
            weights = scores.masked_fill(hidden[:, None], -torch.inf).softmax(-1)
            outputs.append(weights @ rows[:, : step.dims.latent])
    return torch.cat(outputs)


def _dense_selected(step: LargeStep) -> Tensor:
    """Return attention of every token over the positions that it selected."""
    outputs = [step.truth.new_zeros((0, step.dims.heads, step.dims.latent))]
    selected = step.inputs("topk_indices")
    for row, (b, _) in enumerate(step.places):
        seen = step.ints([p for p in selected[row] if isinstance(p, int)])
        rows = step.truth[step.starts[b] + seen]
        weights = (step.true_queries[row] @ rows.T / rows.shape[1] ** 0.5).softmax(-1)
        outputs.append((weights @ rows[:, : step.dims.latent])[None])
    return torch.cat(outputs)


def _by_token(step: LargeStep, owners: Tensor) -> Tensor:
    live, size = len(step.places), step.case.batch.block_size
    positions = step.says("position_ids", "position_ids")[:live]
    index = step.spans(torch.zeros_like(positions), positions + 1)
    column = (index.clamp(min=0) // size).clamp(max=step.table.shape[1] - 1)
    slots = step.table[owners[:live].clamp(0, len(step.table) - 1)[:, None], column] * size + index % size
    return step.attend(step.queries, step.cache, torch.where(index < 0, -1, slots))[0]


def _by_key_offsets(step: LargeStep) -> Tensor:
    starts, keys = (step.says("sequence_layout", f"cu_seqlens_{x}") for x in "qk")
    rows = torch.arange(len(step.places), device=step.device)
    owner = (torch.searchsorted(starts, rows, right=True) - 1).clamp(0, len(step.case.batch.requests) - 1)
    stop = keys[owner + 1] - (starts[owner + 1] - rows) + 1
    return step.attend(step.queries, step.keys(), step.spans(keys[owner], stop))[0]


def _by_windows(step: LargeStep) -> Tensor:
    live = len(step.places)
    first, stop = (step.says("causal_windows", name)[:live] for name in ("ks", "ke"))
    return step.attend(step.queries, step.keys(), step.spans(first, stop))[0]


def _by_selected_slots(step: LargeStep) -> Tensor:
    slots = step.says("topk_to_slots", "selected_slots").view(-1, step.case.options.selection.topk)
    return step.attend(step.queries, step.cache, slots[: len(step.places)])[0]


def _by_compact_slots(step: LargeStep) -> Tensor:
    """Return attention over as many slots as are valid; one of them that is none is garbage."""
    slots = step.says("compact_topk_slots", "compact_slots").view(-1, step.case.options.selection.topk)
    slots = torch.where(slots < 0, len(step.cache), slots)[: len(step.places)]
    counts = step.says("compact_topk_slots", "num_valid")[: len(step.places)]
    place = torch.arange(slots.shape[1], device=step.device)
    return step.attend(step.queries, step.cache, torch.where(place < counts[:, None], slots, -1))[0]


def _ragged(step: LargeStep, first: Tensor, stop: Tensor) -> Tensor:
    """Return the slots at ``[first, stop)`` of the ragged buffer, -1 behind them."""
    index, slots = step.spans(first, stop), step.says("persistent_buffers", "kv_indices")
    return torch.where(index < 0, -1, slots[index.clamp(0, len(slots) - 1)])


def _by_ragged_slots(step: LargeStep) -> Tensor:
    offsets = step.says("persistent_buffers", "kv_indptr")[: len(step.places) + 1]
    return step.attend(step.queries, step.cache, _ragged(step, offsets[:-1], offsets[1:]))[0]


def _by_schedule(step: LargeStep, schedule: str) -> Tensor:
    """Return the work items of each row, attended one by one and merged in turn."""
    live, offsets = len(step.places), step.says("persistent_buffers", "kv_indptr")
    splits = step.says(schedule, "num_splits")[:live]
    count = int(splits.sum())
    tokens, first, stop = (step.says(schedule, f"work_{x}")[:count] for x in ("token", "start", "stop"))
    begins = offsets[tokens.clamp(0, live - 1)]
    slots = _ragged(step, begins + first, begins + stop)
    output, lse = step.attend(step.queries[tokens.clamp(0, live - 1)], step.cache, slots)
    spans = step.says(schedule, "work_indptr")
    items = torch.arange(count, device=step.device)
    done = ((items[:, None] >= spans[:-1]) & (items[:, None] < spans[1:])).any(1)
    lse = lse.masked_fill(~done[:, None], torch.nan)
    ends = splits.cumsum(0)
    index = step.spans(ends - splits, ends)
    empty = (torch.zeros_like(output[:1]), torch.full_like(lse[:1], -torch.inf))
    output, lse = torch.cat((output, empty[0])), torch.cat((lse, empty[1]))
    return merged([(output[column], lse[column]) for column in index.T])


def _by_chunks(step: LargeStep) -> Tensor:
    """Return the merge of the new keys and of each chunk of context, gathered into a workspace."""
    case, live = step.case, len(step.places)
    padded = case.num_requests_padded
    owner = step.ints([b for b, _ in step.places])
    rows = torch.arange(live, device=step.device)
    first = step.says("sequence_layout", "cu_seqlens_q")[owner]
    parts = [step.attend(step.queries, step.new_rows, step.spans(first, rows + 1))]
    names = ("chunk_starts", "chunk_lens", "chunk_cu_seqlens", "chunk_maxima")
    starts, lens, offsets, longest = (step.says("chunked_context", name) for name in names)
    size = case.batch.block_size
    for j in range(case.num_context_chunks):
        workspace = step.cache.new_full((case.workspace_tokens, step.cache.shape[1]), torch.nan)
        at, length = offsets[j * (padded + 1) :][: padded + 1], lens[j * padded :][:padded].tolist()
        for b, num in enumerate(length[: len(case.batch.requests)]):
            place = starts[j * padded + b] + torch.arange(max(0, num), device=step.device)
            slots = step.table[b][(place // size).clamp(max=step.table.shape[1] - 1)] * size + place % size
            into = int(at[b])
            room = max(0, min(len(slots), len(workspace) - into))
            workspace[into : into + room] = step.cache[slots[:room]]
        stop = torch.minimum(at[owner + 1], at[owner] + longest[j])
        parts.append(step.attend(step.queries, workspace, step.spans(at[owner], stop)))
    return merged(parts)


_RAGGED = ("persistent_buffers",)
ROUTES: dict[str, tuple[tuple[str, ...], Callable[[LargeStep], Tensor], str]] = {
    "pages of token_to_request": (
        ("sequence_layout",),
        lambda step: _by_token(step, step.says("sequence_layout", "token_to_request")),
        "all",
    ),
    "pages of request_of_row": (
        _RAGGED,
        lambda step: _by_token(step, step.says("persistent_buffers", "request_of_row")),
        "all",
    ),
    "cu_seqlens": (("sequence_layout", "prefix_interleave"), _by_key_offsets, "all"),
    "windows": (("causal_windows", "prefix_interleave"), _by_windows, "all"),
    "chunks": (("chunked_context", "sequence_layout"), _by_chunks, "all"),
    "selected slots": (("topk_to_slots",), _by_selected_slots, "selected"),
    "compact selected slots": (("compact_topk_slots",), _by_compact_slots, "selected"),
    "ragged slots": (_RAGGED, _by_ragged_slots, "selected"),
    "schedule": (
        ("sparse_schedule", *_RAGGED),
        lambda step: _by_schedule(step, "sparse_schedule"),
        "selected",
    ),
    "cached schedule": (
        ("metadata_cache", *_RAGGED),
        lambda step: _by_schedule(step, "metadata_cache"),
        "selected",
    ),
}
