"""The routes of keys in contiguous buffers: spans by cumulative lengths, and windows."""

from cumae.oracle.attention import mean_row
from cumae.properties.attention.parts import NOBODY, Key, OutOfReach, Part, Rows
from cumae.properties.attention.step import Step, at, prefill_rows


def by_key_offsets(step: Step) -> Rows:
    """Yield for each row of a request its span of the interleaved keys, cut as in ``pages.by_request``."""
    keys = interleaved(step)
    longest = step.says("sequence_layout", "max_seqlen_q")
    query_starts, key_starts = (step.says("sequence_layout", f"cu_seqlens_{x}") for x in "qk")
    for b, request in enumerate(step.batch.requests):
        if step.case.options.keys.key_scope == "prefill" and request.phase == "decode":
            continue
        first, stop = at(query_starts, b, "cu_seqlens_q"), at(query_starts, b + 1, "cu_seqlens_q")
        first_key, last_key = at(key_starts, b, "cu_seqlens_k"), at(key_starts, b + 1, "cu_seqlens_k")
        for row in range(first, min(stop, first + longest[0])):
            at(step.new_rows, row, "the rows of the step")
            end = last_key - (stop - row) + 1
            yield row, [Part([at(keys, i, "keys") for i in range(first_key, end)])]


def by_windows(step: Step) -> Rows:
    """Yield for each prefill token the keys in its window on every rank."""
    buffers = [key_buffer(step, rank) for rank in step.ranks]
    for row in prefill_rows(step):
        parts = []
        for rank, keys in zip(step.ranks, buffers, strict=True):
            first = at(step.says("causal_windows", "ks", rank), row, "ks")
            stop = at(step.says("causal_windows", "ke", rank), row, "ke")
            if first > stop:
                raise OutOfReach(
                    f"has a window [{first}, {stop}) in row {row}: kernels take both as unsigned"
                )
            parts.append(Part([at(keys, i, "keys") for i in range(first, stop)]))
        yield row, parts


def interleaved(step: Step) -> list[Key]:
    """Return the contiguous keys, each read from its source in ``prefix_interleave``."""
    keys = []
    for source in step.says("prefix_interleave", "keys"):
        match source:
            case ("cache", block, offset):
                keys.append(step.read(block * step.batch.block_size + offset))
            case ("new", row):
                keys.append(at(step.new_rows, row, "the rows of the step"))
            case _:
                keys.append(NOBODY)
    return keys


def key_buffer(step: Step, rank: int) -> list[Key]:
    """Return the key buffer of the windows: interleaved, compressed, or one rank's keys."""
    options, world = step.case.options, step.batch.world
    ratio = options.keys.compress_ratio
    if world == 1 and ratio == 1:
        return interleaved(step)
    spans = step.says("sequence_layout", "cu_seqlens_k")
    in_scope = [r for r in step.batch.requests if options.keys.key_scope == "all" or r.phase == "prefill"]
    keys = [NOBODY] * sum(request.seq_len // ratio for request in in_scope)
    for b, request in enumerate(step.batch.requests):
        if request.query_len == 0 or request.phase == "decode":
            continue
        complete = [range(g, g + ratio) for g in range(0, request.seq_len - ratio + 1, ratio)]
        groups = [
            pages for g, pages in enumerate(complete) if g // options.parallel.interleave % world == rank
        ]
        first, stop = at(spans, b, "cu_seqlens_k"), at(spans, b + 1, "cu_seqlens_k")
        for g in range(stop - first if groups else 0):
            at(keys, first + g, "keys")
            pages = [step.cached(b, p) for p in groups[g]] if g < len(groups) else [NOBODY]
            keys[first + g] = pages[0] if ratio == 1 else Key(mean_row([page.values for page in pages]))
    return keys
