"""Buffers that outlive a step: live rows are written, rows that only the previous step had are cleared."""

from collections.abc import Sequence
from typing import NamedTuple

from cumae.oracle.model.marks import ANY, UNTOUCHED, Mark
from cumae.oracle.model.rules import require, require_int
from cumae.oracle.slot_mapping import slot_of

Entries = list[int | Mark]


class PersistentBuffers(NamedTuple):
    """``request_of_row`` int32 [M]; ``kv_indptr`` int32 [M+1]; ``kv_indices`` int32 [M * topk].

    M is ``max_num_tokens``. The keys of row t are the slots ``kv_indices[kv_indptr[t]:kv_indptr[t + 1]]``.
    """

    request_of_row: Entries
    kv_indptr: list[int]
    kv_indices: Entries


def persistent_buffers(
    context_lens: Sequence[int],
    query_lens: Sequence[int],
    num_tokens_padded: int,
    previous_num_tokens_padded: int,
    max_num_tokens: int,
    topk: int,
    topk_indices: Sequence[Sequence[int]],
    block_table: Sequence[Sequence[int]],
    block_size: int,
) -> PersistentBuffers:
    """Return the whole buffers after a step; before it they hold what the previous step left.

    ``context_lens``, ``query_lens`` int [R] in tokens, 0 for padded requests; ``previous_num_tokens_padded``:
    rows of the previous step, 0 if there was none or the buffers are new; ``max_num_tokens``: rows of the
    buffers. ``topk_indices`` int [T, topk]: row t begins with its ``min(position + 1, topk)`` selected
    positions within the request, distinct, in any order; the rest of the row is not read. ``block_table`` int
    [>= R, width] in request order. A position without a block has slot -1.

    ``request_of_row`` is -1 (none) on padding rows and on cleared rows, which only the previous step had.
    ``kv_indptr`` is written to its end; behind the tokens it repeats its last value. ``kv_indices`` may hold
    anything between the last slot and ``T * topk``, and holds -1 on cleared rows. Rows beyond both steps are
    not touched.

    Raises ``ValueError`` if a step has more rows than the buffers, or more tokens than rows.
    Sources: vllm#42982 (only the shrinking tail is cleared), vllm#47042.

    >>> selected = [[1, 0], [0, -9], [1, 0]]
    >>> table = [[7], [], [4]]
    >>> persistent_buffers([1, 0, 0], [1, 0, 2], 3, 4, 5, 2, selected, table, block_size=4)._asdict()
    ... # doctest: +NORMALIZE_WHITESPACE
    {'request_of_row': [0, 2, 2, -1, UNTOUCHED],
     'kv_indptr': [0, 2, 3, 5, 5, 5],
     'kv_indices': [29, 28, 16, 17, 16, ANY, -1, -1, UNTOUCHED, UNTOUCHED]}
    """
    require_int("topk", topk, 1)
    for name, num_rows in (
        ("num_tokens_padded", num_tokens_padded),
        ("previous_num_tokens_padded", previous_num_tokens_padded),
    ):
        require_int(name, num_rows, 0)
        require(num_rows <= max_num_tokens, name, num_rows, f"be <= max_num_tokens = {max_num_tokens}")
    request_of_row: Entries = []
    kv_indptr = [0]
    kv_indices: Entries = []
    for b, (context_len, query_len) in enumerate(zip(context_lens, query_lens, strict=True)):
        slots: dict[int, int] = {}  # of positions that a token of the request selected
        for i in range(query_len):
            kv_len = min(context_len + i + 1, topk)
            selected = topk_indices[len(request_of_row)][:kv_len]
            slots |= {p: slot_of(block_table[b], p, block_size) for p in selected if p not in slots}
            kv_indices += [slots[position] for position in selected]
            request_of_row.append(b)
            kv_indptr.append(len(kv_indices))
    num_tokens = len(request_of_row)
    rule = f"be >= {num_tokens}, the tokens of the step"
    require(num_tokens_padded >= num_tokens, "num_tokens_padded", num_tokens_padded, rule)
    request_of_row += [-1] * (num_tokens_padded - num_tokens)
    kv_indptr += [len(kv_indices)] * (max_num_tokens - num_tokens)
    kv_indices += [ANY] * (num_tokens_padded * topk - len(kv_indices))
    num_cleared = max(0, previous_num_tokens_padded - num_tokens_padded)
    num_beyond = max_num_tokens - num_tokens_padded - num_cleared
    request_of_row += [-1] * num_cleared
    request_of_row += [UNTOUCHED] * num_beyond
    kv_indices += [-1] * (num_cleared * topk)
    kv_indices += [UNTOUCHED] * (num_beyond * topk)
    return PersistentBuffers(request_of_row, kv_indptr, kv_indices)
