"""A case as an SVG: requests as rows of cached, new and wrong tokens, blocks with ids, windows as bars."""

from textwrap import wrap

from cumae.oracle import Case, Inputs, Request
from cumae.properties.operations.places import position_of
from cumae.properties.results.canvas import LEFT, RIGHT, WIDTH, Picture
from cumae.properties.results.counting import counted
from cumae.properties.results.details import details, is_about_slots, is_about_windows, seen_window, window_of
from cumae.properties.results.drawing import shown_requests
from cumae.properties.results.hover import cell_title, run_title
from cumae.properties.results.marks import Marks, marks_of, place_text, shared_blocks
from cumae.properties.results.verdict import Finding

CELL = 22.0
SMALLEST_CELL = 7.0
CLOSEST_EDGES = 12.0
BAR, LABELS, GAP, STAIR, WINDOW = 18, 14, 8, 4, 15
MOST_REQUESTS = 40
MOST_STAIRS = 12
TEXT_COLUMNS = 104


def svg(case: Case, finding: Finding | None = None, *, words: bool = True) -> str:
    """Return the case as one SVG element, 860 pixels wide, in the light or dark colours of the page.

    ``words``: whether it tells the finding, which a page tells beside it.
    """
    return picture_of(case, finding, words=words).element()


def picture_of(case: Case, finding: Finding | None = None, *, words: bool = True) -> Picture:
    """Return the picture of a case: words, requests with their windows, padding."""
    marks = marks_of(case, finding)
    requests = case.batch.requests
    padding = case.layout.num_padding_tokens + case.layout.num_padding_slots
    longest = max([1, padding, *(request.seq_len for request in requests)])
    picture = Picture(min(CELL, (WIDTH - LEFT - RIGHT) / longest))
    _legend(picture, case)
    _words(picture, case, finding if words else None)
    picture.y += 8
    picture.text(12, picture.y, "request", "soft small")
    picture.text(LEFT - 12, picture.y, "cached + new", "soft small", "end")
    if finding is None and _has_stairs(picture, case):
        picture.text(LEFT, picture.y, "bars under a request: the keys each new token sees", "soft small")
    picture.y += 6
    shown = shown_requests(requests, marks, MOST_REQUESTS)
    for i, b in enumerate(shown):
        left_out = b - (shown[i - 1] + 1 if i else 0)
        if left_out:
            picture.y += 12
            picture.text(LEFT, picture.y, f"… {counted(left_out, 'more request')}", "soft")
            picture.y += GAP
        _request(picture, case, b, marks)
        _windows(picture, case, b, finding)
    if not requests:
        picture.y += 14
        picture.text(LEFT, picture.y, "no requests", "soft")
        picture.y += GAP
    _padding(picture, case, marks)
    return picture


def _legend(picture: Picture, case: Case) -> None:
    x = 12.0
    for kind, words in (("cached", "cached"), ("new", "new"), ("wrong", "wrong")):
        picture.bar(x, picture.y, 12, 12, kind)
        if kind == "wrong":
            picture.cross(x, picture.y, 12, 12)
        picture.text(x + 18, picture.y + 10, words)
        x += 18 + 8 * len(words) + 18
    picture.line(x, picture.y - 2, x, picture.y + 14, "edge")
    said = f"block edge, its id above; {counted(case.batch.tokens_per_block, 'token')} a block"
    said += "; * shared" if shared_blocks(case) else ""
    if case.batch.tokens_per_block * picture.cell < CLOSEST_EDGES:
        said += "; only some blocks are shown"
    picture.text(x + 8, picture.y + 10, said)
    picture.y += 12 + 2 * GAP


def _words(picture: Picture, case: Case, finding: Finding | None) -> None:
    """Write the difference and its place above the rows."""
    if finding is None:
        return
    lines = [finding.message, place_text(case, finding)]
    if finding.expected and not is_about_slots(finding):
        lines.append(f"expected {finding.expected}, actual {finding.actual or 'not saved'}")
    if not is_about_windows(finding):
        lines += [line.strip() for line in details(case, finding)]
    lines += [f"likely: {finding.cause}" if finding.cause else ""]
    for line in lines:
        for part in wrap(line, TEXT_COLUMNS):
            picture.y += 10
            picture.text(12, picture.y, part)
            picture.y += 6
    picture.y += GAP


def _request(picture: Picture, case: Case, b: int, marks: Marks) -> None:
    request = case.batch.requests[b]
    wrong = marks.positions.get(b, frozenset())
    top = picture.y + LABELS
    kind = "wrong" if wrong or b in marks.ends else "text"
    picture.text(12, top + 13, f"{b} {request.phase}", kind)
    picture.text(LEFT - 12, top + 13, f"{request.context_len} + {request.query_len}", "text", "end")
    if not request.seq_len:
        picture.text(LEFT, top + 13, "no tokens", "soft")
    _cells(picture, case, b, wrong, top)
    _blocks(picture, case, request, wrong, top)
    if b in marks.ends:
        end = picture.x(request.seq_len)
        picture.bar(end, top - 3, 4, BAR + 6, "wrong")
    picture.y = top + BAR + GAP


def _cells(picture: Picture, case: Case, b: int, wrong: frozenset[int], top: float) -> None:
    """Draw tokens one by one if there is room, else as two bars; a wrong one is at least 3 pixels wide."""
    cell, request = picture.cell, case.batch.requests[b]
    if cell >= SMALLEST_CELL:
        for position in range(request.seq_len):
            kind = "wrong" if position in wrong else "cached" if position < request.context_len else "new"
            title = cell_title(case, b, position)
            picture.bar(picture.x(position) + 0.5, top, cell - 1, BAR, kind, title)
            if position in wrong:
                picture.cross(picture.x(position), top, cell, BAR)
        return
    new = max(request.query_len * cell, 3.0) if request.query_len else 0.0
    end = max(picture.x(request.seq_len), LEFT + new)
    if request.context_len:
        picture.bar(LEFT, top, end - new - LEFT, BAR, "cached", run_title(case, b, new=False))
    if request.query_len:
        picture.bar(end - new, top, new, BAR, "new", run_title(case, b, new=True))
    for position in sorted(wrong):
        x = min(picture.x(position), end - 3)
        picture.bar(x, top - 2, max(cell, 3.0), BAR + 4, "wrong", cell_title(case, b, position))


def _blocks(picture: Picture, case: Case, request: Request, wrong: frozenset[int], top: float) -> None:
    """Draw block edges that do not touch, and the ids that fit, those of wrong tokens first."""
    size = case.batch.tokens_per_block
    count = case.batch.num_live_blocks(request)
    shared = shared_blocks(case)
    roomy = size * picture.cell >= CLOSEST_EDGES
    for column in range(count) if roomy else []:
        picture.line(picture.x(column * size), top - 4, picture.x(column * size), top + BAR, "edge")
    taken: list[tuple[float, float]] = []
    marked = sorted({position // size for position in wrong})
    for column in [*marked, 0, count - 1, *range(1, count - 1)] if count else []:
        block = request.block_ids[column]
        words = (str(block) if block >= 0 else "none") + ("*" if block in shared else "")
        start = picture.x(column * size) + 2
        end = start + 6.2 * len(words) + (4 if roomy else 14)
        if any(start < other_end and other_start < end for other_start, other_end in taken):
            continue
        taken.append((start, end))
        if not roomy:
            picture.line(start - 2, top - 4, start - 2, top + BAR, "edge")
        last = end > WIDTH - 4
        picture.text(WIDTH - 4 if last else start, top - 4, words, "soft small", "end" if last else "start")


def _windows(picture: Picture, case: Case, b: int, finding: Finding | None) -> None:
    """Draw the windows of a request's tokens as bars under its keys; for the wrong token, both windows."""
    request, ratio = case.batch.requests[b], case.options.keys.compress_ratio
    if case.batch.world > 1 or request.phase != "prefill" or not request.query_len:
        return
    first_token = sum(other.query_len for other in case.batch.requests[:b])
    first_key = Inputs(case)["cu_seqlens_k"][b]
    if finding is None:
        if _stairs(picture, request):
            for i in range(request.query_len):
                start, stop = (bound - first_key for bound in window_of(case, first_token + i))
                x = picture.x(start * ratio)
                sees = f"token {first_token + i} sees keys [{start}, {stop}) of request {b}"
                picture.bar(x, picture.y, (stop - start) * ratio * picture.cell, STAIR - 1, "soft", sees)
                picture.y += STAIR
            picture.y += GAP
        return
    if not is_about_windows(finding) or finding.index < 0:
        return
    found = position_of(case, finding.index)
    if found is None or found[0] != b:
        return
    bounds = [("expected", window_of(case, finding.index), "right")]
    seen = seen_window(case, finding)
    if seen is not None:
        bounds.append(("actual", seen, "wrong"))
    for what, (start, stop), kind in bounds:
        picture.text(LEFT - 12, picture.y + 9, f"{what} [{start}, {stop})", kind, "end")
        x1, x2 = (_clipped(picture, (bound - first_key) * ratio) for bound in (start, stop))
        picture.bar(min(x1, x2), picture.y, max(abs(x2 - x1), 2), WINDOW - 6, kind)
        if start < first_key or stop > first_key + request.seq_len // ratio:
            picture.text(max(x1, x2) + 6, picture.y + 9, "beyond this request's keys", "soft small")
        picture.y += WINDOW
    picture.y += GAP


def _stairs(picture: Picture, request: Request) -> bool:
    """Return whether the window of each token of a request has room."""
    few = 0 < request.query_len <= MOST_STAIRS
    return request.phase == "prefill" and few and picture.cell >= SMALLEST_CELL


def _has_stairs(picture: Picture, case: Case) -> bool:
    return case.batch.world == 1 and any(_stairs(picture, request) for request in case.batch.requests)


def _clipped(picture: Picture, position: float) -> float:
    """Return the pixel of a position, clipped to the picture."""
    return min(max(picture.x(position), LEFT - 8), WIDTH - 8)


def _padding(picture: Picture, case: Case, marks: Marks) -> None:
    layout = case.layout
    tokens, slots = layout.num_padding_tokens, layout.num_padding_slots
    if not (tokens or slots or layout.num_padding_requests):
        return
    top = picture.y + 4
    picture.text(12, top + 13, "padding", "wrong" if marks.padding else "text")
    picture.text(
        LEFT - 12,
        top + 13,
        f"{tokens} + {counted(slots, 'slot')}" if slots else counted(tokens, "token"),
        "text",
        "end",
    )
    if picture.cell < SMALLEST_CELL:
        picture.bar(LEFT, top, max((tokens + slots) * picture.cell, 3.0), BAR, "outline")
        for i in sorted(marks.padding):
            picture.bar(picture.x(i), top - 2, max(picture.cell, 3.0), BAR + 4, "wrong")
    else:
        for i in range(tokens + slots):
            x, wrong = picture.x(i), i in marks.padding
            title = f"row {case.batch.num_tokens + i}: padding"
            picture.bar(x + 1.5, top, picture.cell - 3, BAR, "wrong" if wrong else "outline", title)
            if wrong:
                picture.cross(x, top, picture.cell, BAR)
    picture.y = top + BAR + GAP
    if layout.num_padding_requests:
        picture.text(
            12, picture.y + 10, f"and {counted(layout.num_padding_requests, 'padded request')}", "soft"
        )
        picture.y += 12 + GAP
