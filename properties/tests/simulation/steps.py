"""Steps simulated token by token: layouts, positions, slots, windows, sources of keys, cache writes."""

from collections import deque

from cumae.oracle import Batch
from cumae.properties.tests.simulation.tokens import Answer, Token, kept_of, lives_of, owners_of, places_of


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
    for b, life in enumerate(lives_of(batch)):
        computed = [token for token in life if token.is_new]
        rows.extend(computed)
        keys.extend(last_of_each_group(kept_of(batch, b, life, key_scope), compress_ratio))
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
    answer: list[object] = [token.number for life in lives_of(batch) for token in life if token.is_new]
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
    places = places_of(batch, rank, interleave)
    answer: list[object] = []
    for b, life in enumerate(lives_of(batch)):
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
    for b, life in enumerate(lives_of(batch)):
        kept = kept_of(batch, b, life, key_scope)
        first = len(buffer)
        complete = set(last_of_each_group(kept, compress_ratio))
        owners = owners_of(batch.world, interleave)
        # Rows of the last keys on all ranks; None is another rank's.
        recent: deque[int | None] = deque(maxlen=window or None)
        for token in life:
            if token in complete:
                recent.append(len(buffer) if next(owners) == rank else None)
                if recent[-1] is not None:
                    buffer.append(token)
            if token.is_new:
                sees = batch.requests[b].phase == "prefill"
                # A window without a row stands where the next row comes.
                visible = (row for row in recent if row is not None)
                answer["ks"].append(next(visible, len(buffer)) if sees else 0)
                answer["ke"].append(len(buffer) if sees else 0)
        while len(buffer) < first + len(complete):
            buffer.append(None)
    for values in answer.values():
        values.extend(0 for _ in range(num_padding_tokens))
    return answer


def prefix_interleave(batch: Batch, *, capacity: int, key_scope: str = "all") -> Answer:
    """Return where each token of each request is found: in the cache, or else among the new rows."""
    places = places_of(batch, 0, 1)
    lives = lives_of(batch)
    new_rows = {token: row for row, token in enumerate(t for life in lives for t in life if t.is_new)}
    keys: list[object] = []
    for b, life in enumerate(lives):
        for token in kept_of(batch, b, life, key_scope):
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
    places, row = places_of(batch, rank, interleave), 0
    for b, life in enumerate(lives_of(batch)):
        for token in filter(lambda token: token.is_new, life):
            if token in places and (row_index is None or row_index[b] >= 0):
                cache[places[token].block * batch.block_size + places[token].offset] = ("new", row)
            row += 1
    return {"cache": cache}


def last_of_each_group(tokens: list[Token], size: int) -> list[Token]:
    """Return the tokens that complete a group of ``size``."""
    complete: list[Token] = []
    group: list[Token] = []
    for token in tokens:
        group.append(token)
        if len(group) == size:
            complete.append(token)
            group.clear()
    return complete
