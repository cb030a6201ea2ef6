"""Pages of requests simulated token by token: an engine that opens a page when the last one is full."""

from collections import deque

from cumae.oracle import Batch
from cumae.properties.tests.simulation.tokens import Answer

Page = list[int]
"""The positions that one page holds."""


def page_table(
    batch: Batch,
    *,
    blocks: list[list[int]],
    table_width: int,
    num_columns: int,
    num_padding_requests: int = 0,
    tokens_per_entry: int,
    window: int = 0,
) -> Answer:
    """Return the page table: tokens open pages one by one, and full pages that nobody sees are forgotten.

    ``blocks``: kernel blocks of each request, none for a request without a row.
    """
    pages: list[object] = []
    for request, mine in zip(batch.requests, blocks, strict=True):
        opened = _opened(request.seq_len, tokens_per_entry)
        seen = _seen_by_the_first_new_token(request.context_len, window)
        row: list[object] = []
        free = iter(mine + [-1] * len(opened))
        for page in opened:
            block = next(free)
            is_forgotten = len(page) == tokens_per_entry and all(p not in seen for p in page)
            row.append(0 if is_forgotten or not mine or len(row) >= table_width else block)
        while len(row) < num_columns:
            row.append(0)
        pages += row[:num_columns]
    return {"page_table": pages + [0 for _ in range(num_padding_requests) for _ in range(num_columns)]}


def kv_indices(
    batch: Batch,
    *,
    blocks: list[list[int]],
    table_width: int,
    num_padding_requests: int = 0,
    num_entries: int,
    window: int = 0,
) -> Answer:
    """Return the pages of the keys that are left when all keys but the last ``window`` were dropped."""
    indices: list[object] = []
    indptr: list[object] = [0]
    last_lens: list[object] = []
    for request, mine in zip(batch.requests, blocks, strict=True):
        opened = deque(_opened(request.seq_len, batch.block_size))
        last_lens.append(len(opened[-1]) if opened else 0)
        held = deque((mine + [-1] * len(opened))[:table_width] + [-1] * len(opened))
        num_dropped = len(range(request.seq_len)[:-window]) if window else 0
        for _ in range(num_dropped):
            opened[0].pop(0)
            if not opened[0]:
                opened.popleft()
                held.popleft()
        for _ in opened:
            indices.append(held.popleft())
        indptr.append(len(indices))
    for _ in range(num_padding_requests):
        indptr.append(len(indices))
        last_lens.append(0)
    rest = ["untouched" for _ in range(num_entries - len(indices))]
    return {"kv_indptr": indptr, "kv_indices": indices + rest, "kv_last_page_len": last_lens}


def _opened(num_tokens: int, size: int) -> list[Page]:
    """Return the pages that so many tokens fill, one token after another."""
    pages: list[Page] = []
    for position in range(num_tokens):
        if not pages or len(pages[-1]) == size:
            pages.append([])
        pages[-1].append(position)
    return pages


def _seen_by_the_first_new_token(context_len: int, window: int) -> range:
    """Return positions from the oldest one that the first new token sees, itself and later ones included."""
    if not window:
        return range(2**31)
    kept: deque[int] = deque(maxlen=window)
    for position in range(context_len + 1):
        kept.append(position)
    return range(kept[0], 2**31)
