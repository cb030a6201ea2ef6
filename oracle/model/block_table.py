"""Inputs of a case: the block table of its requests, and the row of it that each request has."""

from typing import Any

from cumae.oracle.model.case import Case
from cumae.oracle.model.marks import GARBAGE


def table_rows(case: Case) -> list[int]:
    """Return the row of the block table that each live request has, -1 for none."""
    rows = case.layout.row_index
    return list(range(len(case.batch.requests))) if rows is None else list(rows)


def block_table(case: Case) -> list[list[Any]]:
    """Return rows of kernel blocks, as wide as the longest list of block ids plus the spare columns.

    Missing blocks at the end of a request are cut off, unless the layout has a least number of columns.
    """
    rows, requests = table_rows(case), case.batch.requests
    granted = [request.block_ids for request in requests]
    if not case.layout.min_table_columns:
        granted = [_without_tail(block_ids) for block_ids in granted]
    width = max(map(len, granted), default=0) + case.layout.num_spare_columns
    num_rows = max([len(requests), *(row + 1 for row in rows)]) + case.layout.num_spare_rows
    num_rows += case.layout.num_padding_requests
    parts = case.batch.block_size // case.kernel_block_size
    live: list[list[Any]] = [[]] * num_rows
    for row, request in zip(rows, requests, strict=True):
        if row >= 0:
            entries = request.block_ids[:width]
            live[row] = [b * parts + part if b >= 0 else b for b in entries for part in range(parts)]
    return [entries + [GARBAGE] * (width * parts - len(entries)) for entries in live]


def _without_tail(block_ids: tuple[int, ...]) -> tuple[int, ...]:
    end = len(block_ids)
    while end and block_ids[end - 1] < 0:
        end -= 1
    return block_ids[:end]
