"""A case as a drawing of characters: requests as rows, tokens as cells, blocks between bars."""

from collections.abc import Collection

from cumae.oracle import Case, Request

CACHED, NEW, WRONG = "░", "█", "✗"
MOST_REQUESTS = 12
MOST_TOKENS = 64


def draw(case: Case, wrong_tokens: Collection[int] = ()) -> str:
    """Return a line for each request: its phase, lengths, and tokens cached, new or wrong, in blocks.

    ``wrong_tokens``: rows of the flattened step to mark. Long requests are cut in the middle.
    """
    lines = []
    row = 0
    for b, request in enumerate(case.batch.requests):
        if b == MOST_REQUESTS:
            lines.append(f"  … {len(case.batch.requests) - b} more requests")
            break
        wrong = {row_of - row for row_of in wrong_tokens}
        lines.append(_request_line(case, b, request, wrong))
        row += request.query_len
    if not lines:
        lines.append("  no requests")
    padding = case.layout.num_padding_tokens, case.layout.num_padding_requests
    if any(padding):
        lines.append(f"  padding: {padding[0]} tokens, {padding[1]} requests")
    lines.append(
        f"  {CACHED} cached  {NEW} new  {WRONG} wrong   block of {case.batch.block_size} tokens between bars"
    )
    return "\n".join(lines)


def _request_line(case: Case, b: int, request: Request, wrong: Collection[int]) -> str:
    size = case.batch.tokens_per_block
    cells = []
    for position in range(request.seq_len):
        if position % size == 0:
            cells.append(_bar(request, position // size))
        i = position - request.context_len
        cells.append(CACHED if i < 0 else WRONG if i in wrong else NEW)
    drawn = _cut(cells) + ("|" if cells else "(no tokens)")
    head = (
        f"  request {b}  {request.phase:<7}  context {request.context_len:>3}  query {request.query_len:>3}  "
    )
    return head + drawn


def _bar(request: Request, column: int) -> str:
    block = request.block_ids[column]
    return f"|{block if block >= 0 else 'none'}:"


def _cut(cells: list[str]) -> str:
    if len(cells) <= MOST_TOKENS:
        return "".join(cells)
    half = MOST_TOKENS // 2
    return "".join(cells[:half]) + " … " + "".join(cells[-half:])
