"""A case as a drawing of characters: requests as rows, tokens as cells, blocks between bars."""

from collections.abc import Collection, Sequence
from itertools import islice

from cumae.oracle import Case, Request
from cumae.properties.results.counting import counted
from cumae.properties.results.details import details
from cumae.properties.results.marks import Marks, marks_of, shared_blocks
from cumae.properties.results.verdict import Finding

CACHED, NEW, WRONG, PADDING = "░", "█", "✗", "·"
COLUMNS = 100
MOST_REQUESTS = 12
_CUTS = ((8, 3, 6), (4, 2, 4), (2, 1, 2), (1, 1, 1), (1, 0, 1), (0, 0, 1))
"""Levels of cutting, widest first: cells kept at each end, cells around a wrong one, wrong ones shown."""


def draw(case: Case, finding: Finding | None = None) -> str:
    """Return a line for each request: phase, lengths, and its cached, new and wrong tokens in blocks.

    Lines hold at most 100 characters: long requests and many requests are cut, wrong ones are kept.
    The window or slot of the first wrong token follows.
    """
    lines = request_lines(case, finding)
    return "\n".join([*lines, _legend(case, is_wrong=WRONG in "".join(lines)), *details(case, finding)])


def request_lines(case: Case, finding: Finding | None = None) -> list[str]:
    """Return only the lines of requests and padding."""
    marks = marks_of(case, finding)
    requests = case.batch.requests
    shared = shared_blocks(case)
    heads = _heads(requests)
    lines = []
    shown = shown_requests(requests, marks)
    for i, b in enumerate(shown):
        left_out = b - (shown[i - 1] + 1 if i else 0)
        if left_out:
            lines.append(f"  … {counted(left_out, 'more request')}")
        wrong = marks.positions.get(b, frozenset())
        side = f"{WRONG} " if b in marks.ends else "  "
        lines.append(side + heads[b] + _cells(case, requests[b], wrong, shared, COLUMNS - 2 - len(heads[b])))
    if not requests:
        lines.append("  no requests")
    return lines + _padding(case, marks)


def _legend(case: Case, *, is_wrong: bool) -> str:
    wrong = f"{WRONG} wrong  " if is_wrong else ""
    return (
        f"  {CACHED} cached  {NEW} new  {wrong} "
        f"cached + new tokens; |id: opens a block of {counted(case.batch.tokens_per_block, 'token')}"
        f"{', * shared' if shared_blocks(case) else ''}"
    )


def shown_requests(requests: Sequence[Request], marks: Marks, most: int = MOST_REQUESTS) -> list[int]:
    """Return the requests to draw: all, or the wrong and the last ones, and the first with tokens."""
    count = len(requests)
    if count <= most:
        return list(range(count))
    wrong = sorted(b for b in {*marks.positions, *marks.ends} if 0 <= b < count)
    chosen = set(wrong[: most - 4]) | {count - 1}
    others = (b for b in sorted(range(count), key=lambda b: requests[b].seq_len == 0) if b not in chosen)
    return sorted([*chosen, *islice(others, most - len(chosen))])


def _heads(requests: Collection[Request]) -> list[str]:
    """Return the aligned text before the cells of each request."""
    width = len(str(max(len(requests) - 1, 0)))
    context = max((len(str(r.context_len)) for r in requests), default=1)
    query = max((len(str(r.query_len)) for r in requests), default=1)
    return [
        f"request {b:>{width}}  {r.phase:<7}  {r.context_len:>{context}} + {r.query_len:<{query}}  "
        for b, r in enumerate(requests)
    ]


def _cells(case: Case, request: Request, wrong: Collection[int], shared: Collection[int], width: int) -> str:
    if not request.seq_len:
        return "(no tokens)"
    drawn = ""
    for ends, around, most_wrong in ((request.seq_len, 0, 0), *_CUTS):
        drawn = _cut(case, request, wrong, shared, _kept(request, wrong, ends, around, most_wrong))
        if len(drawn) <= width:
            break
    return drawn


def _kept(request: Request, wrong: Collection[int], ends: int, around: int, most_wrong: int) -> set[int]:
    """Return the positions to draw: both ends, the first new token, and wrong positions."""
    length = request.seq_len
    if 2 * ends >= length:
        return set(range(length))
    centres = sorted(wrong)[:most_wrong] + ([request.context_len] if request.query_len else [])
    near = {centre + step for centre in centres for step in range(-around, around + 1)}
    return {p for p in {*near, *range(ends), *range(length - ends, length)} if 0 <= p < length}


def _cut(
    case: Case, request: Request, wrong: Collection[int], shared: Collection[int], kept: set[int]
) -> str:
    """Return the kept cells; a number between dots stands for skipped cells, in this block or others."""
    size = case.batch.tokens_per_block
    parts, last = [], -1
    for position in sorted(kept):
        gap = position - last - 1
        if gap:
            parts.append(f" …{gap}… ")
        if position % size == 0 or position // size > last // size:
            block = request.block_ids[position // size]
            parts.append(f"|{block if block >= 0 else 'none'}{'*' if block in shared else ''}:")
            parts.append("…" if position % size else "")
        is_new = position >= request.context_len
        parts.append(WRONG if position in wrong else NEW if is_new else CACHED)
        last = position
    gap = request.seq_len - last - 1
    return "".join(parts) + (f" …{gap}… |" if gap else "|")


def _padding(case: Case, marks: Marks) -> list[str]:
    """Return the line of the padding with wrong rows marked; none without padding."""
    layout = case.layout
    counts = (
        (layout.num_padding_tokens, "token"),
        (layout.num_padding_requests, "request"),
        (layout.num_padding_slots, "slot"),
    )
    said = ", ".join(counted(n, what) for n, what in counts if n)
    if not said:
        return []
    rows = layout.num_padding_tokens + layout.num_padding_slots
    cells = [WRONG if i in marks.padding else PADDING for i in range(rows)]
    room = COLUMNS - len(said) - 13
    if rows > room:
        first = min(marks.padding, default=0)
        start = max(0, min(first - 2, rows - room + 12))
        end = min(rows, start + room - 12)
        before = [f"…{start}…"] if start else []
        cells = before + cells[start:end] + ([f"…{rows - end}…"] if end < rows else [])
    return [f"  padding: {said}  {''.join(cells)}".rstrip()]
