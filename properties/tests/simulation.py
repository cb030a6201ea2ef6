"""A serving engine that handles one token after another, and is asked afterwards where everything went.

The second formulation of the operations: no running sums, no division. Tokens are appended to lists
and put into blocks one at a time; offsets, positions, slots and windows are read from what grew.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import cycle, islice
from typing import NamedTuple

from cumae.oracle import Batch

Answer = dict[str, list[object]]


class Token(NamedTuple):
    """A token's tag: its request, and how many tokens of that request came before it."""

    request: int
    number: int
    is_new: bool


class Place(NamedTuple):
    """Where a rank's cache holds a token."""

    block: int
    offset: int


def sequence_layout(
    batch: Batch,
    *,
    num_padding_tokens: int = 0,
    num_padding_requests: int = 0,
    key_scope: str = "all",
    compress_ratio: int = 1,
    token_padding: int = -1,
    dummy_request: bool = False,
) -> Answer:
    """Return how long the lists of new tokens and of key rows are after each request."""
    rows: list[Token] = []
    keys: list[Token] = []
    cu_q, cu_k, longest_q, longest_k = [0], [0], 0, 0
    for b, life in enumerate(_lives(batch)):
        computed = [token for token in life if token.is_new]
        rows.extend(computed)
        keys.extend(_last_of_each_group(_kept(batch, b, life, key_scope), compress_ratio))
        cu_q.append(len(rows))
        cu_k.append(len(keys))
        if computed:
            longest_q, longest_k = max(longest_q, len(computed)), max(longest_k, len(life))
    for _ in range(num_padding_requests):
        cu_q.append(cu_q[-1])
        cu_k.append(cu_k[-1])
    padding: list[object] = [token_padding for _ in range(num_padding_tokens)]
    if dummy_request:
        cu_q[-1] = len(rows) + len(padding)
    return {
        "cu_seqlens_q": [*cu_q],
        "cu_seqlens_k": [*cu_k],
        "token_to_request": [token.request for token in rows] + padding,
        "max_seqlen_q": [longest_q],
        "max_seqlen_k": [longest_k],
    }


def position_ids(batch: Batch, *, num_padding_tokens: int = 0) -> Answer:
    """Return for each new token how many tokens its request had stored before."""
    answer: list[object] = [token.number for life in _lives(batch) for token in life if token.is_new]
    return {"position_ids": answer + [0 for _ in range(num_padding_tokens)]}


def slot_mapping(
    batch: Batch,
    *,
    num_unused_slots: int = 0,
    rank: int = 0,
    interleave: int = 1,
    row_index: tuple[int, ...] | None = None,
) -> Answer:
    """Return where a rank's cache holds each new token, -1 where it does not."""
    places = _stored(batch, rank, interleave)
    answer: list[object] = []
    for b, life in enumerate(_lives(batch)):
        has_row = row_index is None or row_index[b] >= 0
        for token in life:
            if token.is_new:
                place = places.get(token) if has_row else None
                answer.append(-1 if place is None else place.block * batch.block_size + place.offset)
    return {"slot_mapping": answer + [-1 for _ in range(num_unused_slots)]}


def causal_windows(
    batch: Batch,
    *,
    num_padding_tokens: int = 0,
    key_scope: str = "all",
    compress_ratio: int = 1,
    window: int = 0,
    rank: int = 0,
    interleave: int = 1,
) -> Answer:
    """Return for each new token the first and last row it may see, as the rows come into being."""
    answer = {"ks": list[object](), "ke": list[object]()}
    buffer: list[Token | None] = []
    for b, life in enumerate(_lives(batch)):
        kept = _kept(batch, b, life, key_scope)
        first = len(buffer)
        complete = set(_last_of_each_group(kept, compress_ratio))
        visible: deque[int] = deque(maxlen=window or None)
        for token, owner in zip(life, _owners(batch.world, interleave), strict=False):
            if token in complete and owner == rank:
                visible.append(len(buffer))
                buffer.append(token)
            if token.is_new:
                sees = batch.requests[b].phase == "prefill"
                # Without a row the window is empty and stands where the request's rows begin.
                answer["ks"].append(0 if not sees else visible[0] if visible else first)
                answer["ke"].append(0 if not sees else visible[-1] + 1 if visible else first)
        while len(buffer) < first + len(complete):
            buffer.append(None)
    for values in answer.values():
        values.extend(0 for _ in range(num_padding_tokens))
    return answer


def prefix_interleave(batch: Batch, *, capacity: int, key_scope: str = "all") -> Answer:
    """Return where each token of each request is found: in the cache, or else among the new rows."""
    places = _stored(batch, 0, 1)
    lives = _lives(batch)
    new_rows = {token: row for row, token in enumerate(t for life in lives for t in life if t.is_new)}
    keys: list[object] = []
    for b, life in enumerate(lives):
        for token in _kept(batch, b, life, key_scope):
            keys.append(("new", new_rows[token]) if token in new_rows else ("cache", *places[token]))
    while len(keys) < capacity:
        keys.append("untouched")
    while len(keys) > capacity:
        keys.pop()
    return {"keys": keys}


def cache_write(
    batch: Batch,
    *,
    num_slots: int,
    rank: int = 0,
    interleave: int = 1,
    row_index: tuple[int, ...] | None = None,
) -> Answer:
    """Return what stands in each slot after the new tokens of a rank went to their places, one by one."""
    cache: list[object] = ["untouched" for _ in range(num_slots)]
    places, row = _stored(batch, rank, interleave), 0
    for b, life in enumerate(_lives(batch)):
        for token in filter(lambda token: token.is_new, life):
            if token in places and (row_index is None or row_index[b] >= 0):
                cache[places[token].block * batch.block_size + places[token].offset] = ("new", row)
            row += 1
    return {"cache": cache}


def sparse_schedule(
    batch: Batch, *, num_padding_tokens: int = 0, topk: int, split_size: int, num_workers: int
) -> Answer:
    """Return the items that come up as each token takes up its keys, handed to the workers one at a time."""
    items: list[tuple[int, int, int]] = []
    num_splits: list[object] = []
    for kept in (kept for request in _attended(batch, topk) for kept in request):
        splits = list(_groups(range(kept), split_size))
        items.extend((len(num_splits), split[0], split[-1] + 1) for split in splits)
        num_splits.append(len(splits))
    num_splits.extend(0 for _ in range(num_padding_tokens))
    hands = [0 for _ in range(num_workers)]
    for _, worker in zip(items, cycle(range(num_workers)), strict=False):
        hands[worker] += 1
    rows, taken = iter(items), list[object]()
    work_indptr: list[object] = [0]
    for hand in hands:
        taken.extend(islice(rows, hand))
        work_indptr.append(len(taken))
    room = [split for _ in num_splits for split in _groups(range(topk), split_size)]
    none = [(-1, 0, 0) for _ in range(len(room) - len(items))]
    answer: Answer = {"work_indptr": work_indptr}
    for column, name in enumerate(("work_token", "work_start", "work_stop")):
        answer[name] = [item[column] for item in items + none]
    return {**answer, "num_splits": num_splits}


def any_schedule(batch: Batch, *, num_padding_tokens: int = 0, topk: int, split_size: int) -> Answer:
    """Return room for the splits of a row that has all its keys, a row at a time."""
    room: list[object] = []
    computed = [token for life in _lives(batch) for token in life if token.is_new]
    for _ in [*computed, *range(num_padding_tokens)]:
        room.extend("any" for _ in _groups(range(topk), split_size))
    return {name: list(room) for name in ("work_token", "work_start", "work_stop")}


def metadata_cache(
    batch: Batch,
    previous: Batch | None,
    *,
    num_padding_tokens: int = 0,
    num_previous_padding_tokens: int = 0,
    topk: int,
    split_size: int,
    num_workers: int,
) -> Answer:
    """Return the schedule built afresh; it may be kept if each token is followed by the same as before."""
    fresh = sparse_schedule(
        batch,
        num_padding_tokens=num_padding_tokens,
        topk=topk,
        split_size=split_size,
        num_workers=num_workers,
    )
    same = previous is not None and (
        _attended(batch, topk) == _attended(previous, topk)
        and num_padding_tokens == num_previous_padding_tokens
    )
    return {**fresh, "rebuilt": [0 if same else 1]}


def persistent_buffers(
    batch: Batch,
    selected: list[list[int]],
    *,
    num_padding_tokens: int = 0,
    num_previous_rows: int = 0,
    num_spare_tokens: int = 0,
    topk: int,
) -> Answer:
    """Return the buffers after everything the step before wrote was cleared and this step written over it."""
    slots = {
        (token.request, token.number): place.block * batch.block_size + place.offset
        for token, place in _stored(batch, 0, 1).items()
    }
    lives = _lives(batch)
    rows = [token for life in lives for token in life if token.is_new]
    num_rows = len(rows) + num_padding_tokens
    owners: list[object] = ["untouched" for _ in range(num_rows + num_spare_tokens)]
    keys: list[list[object]] = [["untouched" for _ in range(topk)] for _ in owners]
    for row in range(num_previous_rows):
        owners[row], keys[row] = -1, [-1 for _ in range(topk)]
    for row in range(num_rows):
        owners[row], keys[row] = -1, ["any" for _ in range(topk)]
    indices = [entry for row_of_keys in keys for entry in row_of_keys]
    starts, num_keys = list[object](), 0
    for row, token in enumerate(rows):
        starts.append(num_keys)
        owners[row] = token.request
        for position in selected[row][: min(token.number + 1, topk)]:
            indices[num_keys] = slots.get((token.request, position), -1)
            num_keys += 1
    while len(starts) < len(owners) + 1:
        starts.append(num_keys)
    return {"request_of_row": owners, "kv_indptr": starts, "kv_indices": indices}


def topk_to_slots(
    batch: Batch,
    selected: list[list[int]],
    *,
    num_padding_tokens: int = 0,
    topk: int,
    rank: int = 0,
    interleave: int = 1,
    has_workspace: bool = False,
) -> Answer:
    """Return where a rank's cache holds the tokens that each new token selected, -1 where it does not.

    With a workspace, prefills that compute something read their tokens there, gathered one by one.
    """
    workspace: dict[tuple[int, int], int] = {}
    if has_workspace:
        for life in _lives(batch):
            if any(token.is_new and batch.requests[token.request].phase == "prefill" for token in life):
                for token in life:
                    workspace[token.request, token.number] = len(workspace)
    places = {
        (token.request, token.number): place for token, place in _stored(batch, rank, interleave).items()
    }
    answer: list[object] = []
    rows = [token for life in _lives(batch) for token in life if token.is_new]
    for token, numbers in zip(rows, selected, strict=False):
        for number in numbers:
            if (token.request, token.number) in workspace:
                answer.append(workspace.get((token.request, number), -1))
                continue
            place = places.get((token.request, number))
            answer.append(-1 if place is None else place.block * batch.block_size + place.offset)
    return {"selected_slots": answer + [-1 for _ in range(num_padding_tokens) for _ in range(topk)]}


def compact_topk_slots(selected_slots: list[object], *, topk: int) -> Answer:
    """Return the slots of each row with every -1 moved behind the others, and how many stay in front."""
    slots: list[object] = []
    counts: list[object] = []
    for group in _groups(range(len(selected_slots)), topk):
        row = [selected_slots[index] for index in group]
        num_gaps = 0
        for index in range(len(row) - 1, -1, -1):
            if row[index] == -1:
                row.append(row.pop(index))
                num_gaps += 1
        slots += row
        counts.append(topk - num_gaps)
    return {"compact_slots": slots, "num_valid": counts}


def chunked_context(
    batch: Batch,
    *,
    num_padding_requests: int = 0,
    key_scope: str = "all",
    workspace_tokens: int,
    max_context_len: int,
) -> Answer:
    """Return what each chunk holds: room is handed out in rounds of blocks, then contexts are read off."""
    contexts = [
        deque(token for token in _kept(batch, b, life, key_scope) if not token.is_new)
        for b, life in enumerate(_lives(batch))
    ]
    contexts.extend(deque() for _ in range(num_padding_requests))
    holders = [context for context in contexts if context]
    share: list[int] = []
    room = iter(range(workspace_tokens))
    round_of_blocks = len(holders) * batch.block_size
    while holders and len(list(islice(room, round_of_blocks))) == round_of_blocks:
        share.extend(range(batch.block_size))
    names = ("chunk_starts", "chunk_lens", "chunk_cu_seqlens", "chunk_totals", "chunk_maxima")
    answer: Answer = {name: [] for name in names}
    bound = deque(range(max_context_len if holders else 0))
    while bound:
        start, held, longest = bound[0], list[Token](), 0
        answer["chunk_cu_seqlens"].append(0)
        for context in contexts:
            part = [context.popleft() for _ in share if context]
            held.extend(part)
            longest = max(longest, len(part))
            answer["chunk_starts"].append(start)
            answer["chunk_lens"].append(len(part))
            answer["chunk_cu_seqlens"].append(len(held))
        answer["chunk_totals"].append(len(held))
        answer["chunk_maxima"].append(longest)
        for _ in share:
            if bound:
                bound.popleft()
    return answer


def _attended(batch: Batch, topk: int) -> list[list[int]]:
    """Return how many keys each new token takes up, request by request where there are any."""
    attended = []
    for life in _lives(batch):
        seen = list[Token]()
        counts = []
        for token in life:
            if len(seen) < topk:
                seen.append(token)
            if token.is_new:
                counts.append(len(seen))
        if counts:
            attended.append(counts)
    return attended


def _groups(entries: Iterable[int], size: int) -> Iterator[list[int]]:
    """Yield the entries ``size`` at a time, fewer at the end."""
    group: list[int] = []
    for entry in entries:
        group.append(entry)
        if len(group) == size:
            yield group
            group = []
    if group:
        yield group


def _lives(batch: Batch) -> list[list[Token]]:
    """Return the tokens of each request in the order in which they came, cached ones first."""
    lives: list[list[Token]] = []
    for b, request in enumerate(batch.requests):
        life: list[Token] = []
        for _ in range(request.context_len):
            life.append(Token(b, len(life), is_new=False))
        for _ in range(request.query_len):
            life.append(Token(b, len(life), is_new=True))
        lives.append(life)
    return lives


def _kept(batch: Batch, b: int, life: list[Token], key_scope: str) -> list[Token]:
    """Return the tokens of request ``b`` that have a place in the key buffer."""
    return life if key_scope == "all" or batch.requests[b].phase == "prefill" else []


def _last_of_each_group(tokens: list[Token], size: int) -> list[Token]:
    """Return the tokens that complete a group of ``size``."""
    complete: list[Token] = []
    group: list[Token] = []
    for token in tokens:
        group.append(token)
        if len(group) == size:
            complete.append(token)
            group.clear()
    return complete


def _owners(world: int, interleave: int) -> Iterator[int]:
    """Yield the rank that owns each token of a request: dealt out round and round, some at a time."""
    for rank in cycle(range(world)):
        for _ in range(interleave):
            yield rank


def _stored(batch: Batch, rank: int, interleave: int) -> dict[Token, Place]:
    """Return where ``rank`` holds its tokens, each request filling its blocks from the first on.

    Raises ``AssertionError`` where a new token lands on another request's token: no valid batch does.
    """
    places: dict[Token, Place] = {}
    holders: dict[Place, list[Token]] = {}
    for b, life in enumerate(_lives(batch)):
        free = (Place(block, o) for block in batch.requests[b].block_ids for o in range(batch.block_size))
        for token, owner in zip(life, _owners(batch.world, interleave), strict=False):
            if owner == rank:
                place = next(free)
                if place.block >= 0:
                    places[token] = place
                    holders.setdefault(place, []).append(token)
    for place, tokens in holders.items():
        if len(tokens) > 1 and any(token.is_new for token in tokens):
            raise AssertionError(f"{place} is written although it holds {tokens}")
    return places
