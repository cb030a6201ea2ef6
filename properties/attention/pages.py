"""The routes of paged attention: block and page tables, lists, windows, flat decodes and allocated slots."""

from collections.abc import Sequence

from cumae.oracle import Mark
from cumae.properties.attention.parts import Key, OutOfReach, Part, Rows
from cumae.properties.attention.step import Step, at


def by_token(step: Step, owners: Sequence[int]) -> Rows:
    """Yield for each token the pages of its request, up to its own position."""
    positions = step.says("position_ids", "position_ids")
    for row in range(len(step.tokens)):
        owner = at(owners, row, "token_to_request")
        last = at(positions, row, "position_ids")
        yield row, [Part([step.cached(owner, p) for p in range(last + 1)] if owner >= 0 else [])]


def by_request(step: Step) -> Rows:
    """Yield for each row of a request its pages: the last row sees all keys, each row before it one less."""
    starts, longest = (
        step.says("sequence_layout", "cu_seqlens_q"),
        step.says("sequence_layout", "max_seqlen_q"),
    )
    most_keys = step.says("sequence_layout", "max_seqlen_k")[0]
    seq_lens = step.inputs("sequence_layout")["seq_lens"]
    for b, seq_len in enumerate(seq_lens):
        first, stop = at(starts, b, "cu_seqlens_q"), at(starts, b + 1, "cu_seqlens_q")
        for row in range(first, min(stop, first + longest[0])):
            at(step.new_rows, row, "the rows of the step")
            visible = min(seq_len - (stop - row) + 1, most_keys)
            yield row, [Part([step.cached(b, p) for p in range(visible)])]


def by_next_token(step: Step) -> Rows:
    """Yield for the next token of each request all its pages, read back, and its own key."""
    for b, request in enumerate(step.batch.requests):
        pages = [step.cached(b, p) for p in range(request.seq_len)]
        yield step.case.num_tokens_padded + b, [Part([*pages, step.next_token(b)])]


def by_page_table(step: Step) -> Rows:
    """Yield for each token the keys in its window, each by the column of its position."""
    pages, columns = step.says("page_table", "page_table"), step.case.num_page_columns
    for row, (b, own) in enumerate(step.tokens):
        table = pages[b * columns : (b + 1) * columns]
        yield row, [Part([_in_column(step, table, position) for position in _seen(step, own)])]


def _seen(step: Step, own: int) -> range:
    """Return the positions that a token sees, within its window if there is one."""
    window = step.case.options.keys.window
    return range(max(0, own + 1 - window) if window else 0, own + 1)


def _in_column(step: Step, table: Sequence[int], position: int) -> Key:
    size, world = step.case.kernel_block_size, step.batch.world
    column, offset = divmod(position, size * world)
    interleave = step.case.options.parallel.interleave
    rank = offset // interleave % world
    inside = offset // (interleave * world) * interleave + offset % interleave if world > 1 else offset
    return step.read(_number(table, column, "page_table") * size + inside, rank)


def by_listed_pages(step: Step) -> Rows:
    """Yield for each row of a request its listed keys: the last row sees all, each row before it one less.

    A list that is cut to a window is cut for the last row of its request, and only this one is yielded.
    """
    starts, pages, lens = (step.says("kv_indices", f"kv_{x}") for x in ("indptr", "indices", "last_page_len"))
    size, window = step.batch.block_size, step.case.options.keys.window
    row = 0
    for b, request in enumerate(step.batch.requests):
        first, stop = _number(starts, b, "kv_indptr"), _number(starts, b + 1, "kv_indptr")
        num_keys = (stop - first - 1) * size + _number(lens, b, "kv_last_page_len")
        for to_come in reversed(range(request.query_len)):
            visible = range(max(0, num_keys - to_come))
            if not window or not to_come:
                seen = visible[-window:] if window else visible
                yield row, [Part([step.read(_listed(pages, first, i, size)) for i in seen])]
            row += 1


def _listed(pages: Sequence[int], first: int, i: int, size: int) -> int:
    """Return the slot of the key that stands at an index in the pages from ``first`` on."""
    return _number(pages, first + i // size, "kv_indices") * size + i % size


def _number(values: Sequence[int | Mark], index: int, name: str) -> int:
    """Return an entry. Raises ``OutOfReach`` if there is none, or none that was written."""
    found = at(values, index, name)
    if not isinstance(found, int):
        raise OutOfReach(f"reads {name}[{index}], which holds {found}")
    return found


def by_window_slots(step: Step) -> Rows:
    """Yield for each token the first ``window_lens`` slots of its row."""
    slots, lens = step.says("window_slots", "window_slots"), step.says("window_slots", "window_lens")
    columns = step.case.window_columns
    for row in range(len(step.tokens)):
        places = range(row * columns, row * columns + _number(lens, row, "window_lens"))
        yield row, [Part([step.read(_number(slots, place, "window_slots")) for place in places])]


def by_key_lens(step: Step) -> Rows:
    """Yield for each token, a decode of its own, the first ``key_lens`` keys of its request."""
    lens = step.says("flat_decodes", "key_lens")
    for row, (b, _) in enumerate(step.tokens):
        yield row, [Part([step.cached(b, position) for position in range(_number(lens, row, "key_lens"))])]


def by_selected_lens(step: Step) -> Rows:
    """Yield for each token its ragged slots, from the offset and by the length of the flattened decodes."""
    starts = step.says("flat_decodes", "selected_indptr")
    lens, slots = step.says("flat_decodes", "selected_lens"), step.says("persistent_buffers", "kv_indices")
    for row in range(len(step.tokens)):
        first = _number(starts, row, "selected_indptr")
        places = range(first, first + _number(lens, row, "selected_lens"))
        yield row, [Part([step.read(_number(slots, place, "kv_indices")) for place in places])]


def by_allocated_slots(step: Step) -> Rows:
    """Yield for each token the cached keys of its request, and the new ones from their allocated slots."""
    slots = step.says("allocate_slots", "out_cache_loc")
    row = 0
    for b, request in enumerate(step.batch.requests):
        cached = [step.cached(b, position) for position in range(request.context_len)]
        new: list[Key] = []
        for _ in range(request.query_len):
            new.append(step.read(_number(slots, row, "out_cache_loc")))
            yield row, [Part([*cached, *new])]
            row += 1
