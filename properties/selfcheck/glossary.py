"""The pictures of the glossary: one step, and what its operations say of it, from the oracles."""

from collections.abc import Callable, Sequence

from cumae.oracle import Batch, Case, Inputs, Options, Request
from cumae.oracle.causal_windows import causal_windows
from cumae.oracle.page_table import page_table
from cumae.oracle.position_ids import position_ids
from cumae.oracle.prefix_interleave import prefix_interleave
from cumae.oracle.sequence_layout import sequence_layout
from cumae.oracle.slot_mapping import slot_mapping
from cumae.oracle.sparse_schedule import sparse_schedule
from cumae.properties.results.canvas import LEFT, Picture
from cumae.properties.results.svg import svg

TOPK, SPLIT_SIZE = 6, 2
STEP = Case(
    Batch((Request(5, 3, (7, 2)), Request(6, 1, (4, 9), "decode"), Request(0, 2, (5,))), block_size=4),
    options=Options.of(topk=TOPK, split_size=SPLIT_SIZE, num_workers=2),
)
NUM_BLOCKS = 10
BAR, LINE = 14, 30


def pictures() -> dict[str, str]:
    """Return the SVG of each picture, by its file's name without the suffix."""
    inputs = Inputs(STEP)
    drawn = (_tokens, _cache, _windows, _page_table, _interleave, _schedule)
    return {"step": svg(STEP)} | {one.__name__[1:].replace("_", "-"): _drawn(one, inputs) for one in drawn}


def _drawn(draw: Callable[[Picture, Inputs], None], inputs: Inputs) -> str:
    picture = Picture(cell=22.0, y=20.0)
    draw(picture, inputs)
    return picture.element()


def _heading(picture: Picture, words: str) -> None:
    picture.text(12, picture.y, words, "soft")
    picture.y += LINE - 8


def _row(
    picture: Picture,
    label: str,
    words: Sequence[object],
    kinds: Sequence[str] = (),
    width: float = 44.0,
) -> None:
    """Write words in cells beside a label; a bar of a kind stands under each word that has one."""
    picture.text(LEFT - 12, picture.y + 10, label, "text", "end")
    for i, word in enumerate(words):
        picture.text(LEFT + (i + 0.5) * width, picture.y + 10, str(word), "text", "middle")
        if i < len(kinds):
            picture.bar(LEFT + i * width + 1.5, picture.y + 15, width - 3, 6, kinds[i])
    picture.y += LINE if kinds else LINE - 8


def _tokens(picture: Picture, inputs: Inputs) -> None:
    layout = inputs.call(sequence_layout)
    tokens = STEP.batch.num_tokens
    _heading(
        picture, "one column for each new token of the step; cu_seqlens_q says where each request begins"
    )
    _row(picture, "token", range(tokens), ["new"] * tokens)
    _row(picture, "request", layout.token_to_request[:tokens])
    _row(picture, "position", inputs.call(position_ids).position_ids[:tokens])
    _row(picture, "slot", inputs.call(slot_mapping).slot_mapping[:tokens])
    _row(picture, "cu_seqlens_q", layout.cu_seqlens_q)
    _row(picture, "cu_seqlens_k", layout.cu_seqlens_k)


def _cache(picture: Picture, inputs: Inputs) -> None:
    size, slots = STEP.batch.block_size, inputs.call(slot_mapping).slot_mapping
    kinds = dict.fromkeys(slots, "new")
    for request in STEP.batch.requests:
        for position in range(request.context_len):
            kinds[request.block_ids[position // size] * size + position % size] = "cached"
    cell = 16.0
    _heading(picture, "the cache: ten blocks of four slots; block × 4 + offset = slot")
    for block in range(NUM_BLOCKS):
        x = LEFT + block * size * cell
        picture.text(x + 2, picture.y + 8, f"block {block}", "soft small")
        picture.line(x, picture.y, x, picture.y + 34, "edge")
        for offset in range(size):
            kind = kinds.get(block * size + offset, "outline")
            picture.bar(x + offset * cell + 1.5, picture.y + 14, cell - 3, BAR, kind)
        picture.text(x + 2, picture.y + 40, str(block * size), "soft small")
    picture.text(LEFT - 12, picture.y + 40, "first slot", "soft small", "end")
    picture.y += 60
    _legend(picture, (("cached", "cached"), ("new", "written in this step"), ("outline", "free")))


def _legend(picture: Picture, entries: Sequence[tuple[str, str]]) -> None:
    x = float(LEFT)
    for kind, words in entries:
        picture.bar(x, picture.y, 12, 12, kind)
        picture.text(x + 18, picture.y + 10, words)
        x += 36 + 8 * len(words)
    picture.y += 20


def _windows(picture: Picture, inputs: Inputs) -> None:
    found = inputs.call(causal_windows)
    starts = inputs.call(sequence_layout).cu_seqlens_k
    _heading(picture, "the keys of the step stand request after request; a token sees the keys [ks, ke)")
    picture.text(LEFT - 12, picture.y + 10, "keys", "text", "end")
    for b, request in enumerate(STEP.batch.requests):
        x = picture.x(starts[b])
        picture.text(x + 2, picture.y, f"request {b}", "soft small")
        for i in range(request.seq_len):
            kind = "cached" if i < request.context_len else "new"
            picture.bar(x + i * picture.cell + 1.5, picture.y + 4, picture.cell - 3, BAR, kind)
    picture.y += LINE
    for token, (start, stop) in enumerate(zip(found.ks, found.ke, strict=True)):
        label = f"token {token}: [{start}, {stop})"
        picture.text(LEFT - 12, picture.y + 10, label, "text", "end")
        if start == stop:
            picture.text(LEFT, picture.y + 10, "a decode: attention reads its pages instead", "soft")
        picture.bar(picture.x(start), picture.y + 3, (stop - start) * picture.cell, 8, "right")
        picture.y += LINE - 10


def _page_table(picture: Picture, inputs: Inputs) -> None:
    pages, columns = inputs.call(page_table).page_table, inputs["num_page_columns"]
    size = STEP.batch.block_size
    heads = [f"{column * size}–{column * size + size - 1}" for column in range(columns)]
    _heading(picture, "one row for each request, one column for each block; 0 behind the last block")
    _row(picture, "positions", heads, width=60.0)
    for row in range(len(pages) // columns):
        held = len(STEP.batch.requests[row].block_ids)
        kinds = ["new" if column < held else "outline" for column in range(columns)]
        _row(picture, f"request {row}", pages[row * columns : (row + 1) * columns], kinds, 60.0)


def _interleave(picture: Picture, inputs: Inputs) -> None:
    keys = inputs.call(prefix_interleave).keys
    starts = inputs.call(sequence_layout).cu_seqlens_k
    width = 36.0
    _heading(picture, "where each row comes from: block:offset of the cache, or the number of a new token")
    for b, start in enumerate(starts[: len(STEP.batch.requests)]):
        picture.text(LEFT + start * width + 2, picture.y, f"request {b}", "soft small")
    picture.y += 6
    words = [f"{key[1]}:{key[2]}" if key[0] == "cache" else str(key[1]) for key in keys]
    _row(picture, "key row", range(len(keys)), width=width)
    _row(picture, "from", words, ["cached" if key[0] == "cache" else "new" for key in keys], width)


def _schedule(picture: Picture, inputs: Inputs) -> None:
    work = inputs.call(sparse_schedule)
    said = (
        f"each token's keys, at most topk = {TOPK}, are cut into splits of {SPLIT_SIZE}, dealt to two workers"
    )
    _heading(picture, said)
    workers = [
        worker
        for worker, (first, stop) in enumerate(zip(work.work_indptr, work.work_indptr[1:], strict=False))
        for _ in range(first, stop)
    ]
    token = -1
    for item, worker in enumerate(workers):
        if work.work_token[item] != token:
            picture.y += LINE - 8 if token >= 0 else 0
            token = work.work_token[item]
            picture.text(LEFT - 12, picture.y + 10, f"token {token}", "text", "end")
        start, stop = work.work_start[item], work.work_stop[item]
        x, width = LEFT + start * 40.0, (stop - start) * 40.0
        picture.bar(x + 2, picture.y, width - 4, BAR, ("new", "cached")[worker])
    picture.y += LINE
    _legend(picture, (("new", "worker 0"), ("cached", "worker 1")))
