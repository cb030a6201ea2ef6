"""Convert a step of SGLang from its tensors to a case."""

from typing import Any

from cumae.oracle import Batch, Case, Layout, Phase, Request
from cumae.oracle.model.rules import inside, require, require_int
from cumae.properties.dialects.tensor_values import (
    Unreadable,
    first_given,
    read_choice,
    read_count,
    read_flags,
    read_ints,
    read_lens,
    require_equal_copy,
    require_given,
)

DUMP_PAGE = 0
DUMP_ROW = 0
PADDED_SEQ_LEN = 1
_NUMBERED = ("extend", "decode", "mixed", "idle", "target_verify")
_MODES = {
    **{name: "extend" for name in ("extend", "mixed", "split_prefill")},
    **{name: "decode" for name in ("decode", "idle")},
    **{name: "verify" for name in ("verify", "target_verify")},
}
"""The mode of a step, for each name in SGLang's ForwardMode that says how long its requests are."""


def capture(
    req_pool_indices: Any = None,
    req_to_token: Any = None,
    page_size: Any = None,
    forward_mode: Any = "extend",
    seq_lens: Any = None,
    extend_prefix_lens: Any = None,
    extend_seq_lens: Any = None,
    draft_token_num: Any = None,
    is_prefill: Any = None,
    num_tokens_padded: Any = None,
    extend_prefix_lens_cpu: Any = None,
    extend_seq_lens_cpu: Any = None,
) -> Case:
    """Return the case of a step of SGLang. Raises ``ValueError`` if the tensors are not a valid step.

    ``forward_mode`` is ``extend`` (with ``extend_seq_lens``, and ``extend_prefix_lens`` or ``seq_lens``),
    ``decode`` (with ``seq_lens``) or ``verify`` (with ``seq_lens`` and ``draft_token_num``), or SGLang's
    ForwardMode, as enum, name or number. Requests of an extend are prefills unless ``is_prefill`` says
    otherwise. Requests at the end with pool row 0 are padding. Pool rows are checked but not kept. Copies on
    the host must equal their tensors.
    """
    mode = _MODES[read_choice("forward_mode", forward_mode, tuple(_MODES), _NUMBERED)]
    needed = {"req_pool_indices": req_pool_indices, "req_to_token": req_to_token, "page_size": page_size}
    if mode == "extend":
        needed["extend_seq_lens"] = extend_seq_lens
        needed["extend_prefix_lens or seq_lens"] = first_given(extend_prefix_lens, seq_lens)
    else:
        needed["seq_lens"] = seq_lens
    if mode == "verify":
        needed["draft_token_num"] = draft_token_num
    require_given(f"a step of sglang with forward_mode {mode}", needed)
    if mode == "extend":
        require_equal_copy("extend_prefix_lens", extend_prefix_lens, extend_prefix_lens_cpu)
        require_equal_copy("extend_seq_lens", extend_seq_lens, extend_seq_lens_cpu)
    rows = read_lens("req_pool_indices", req_pool_indices)
    live = len(rows)
    while live and rows[live - 1] == DUMP_ROW:
        live -= 1
    for b in range(live):
        rule = f"be >= {DUMP_ROW + 1}: a live request follows, and row {DUMP_ROW} is the dump's"
        require(rows[b] != DUMP_ROW, f"req_pool_indices[{b}]", rows[b], rule)
        taken = rows[b] in rows[:b]
        require(not taken, f"req_pool_indices[{b}]", rows[b], "be the row of one request only")
    size = read_count("page_size", page_size, 1, 2**20)
    lens = _read_lens(mode, len(rows), live, seq_lens, extend_prefix_lens, extend_seq_lens, draft_token_num)
    phases = _read_phases(mode, live, is_prefill)
    requests = []
    for b, ((context_len, query_len), phase) in enumerate(zip(lens, phases, strict=True)):
        block_ids = _read_pages(req_to_token, rows[b], context_len + query_len, size)
        with inside(f"requests[{b}]."):
            requests.append(Request(context_len, query_len, block_ids, phase))
    batch = Batch(tuple(requests), size)
    padded = batch.num_tokens
    if num_tokens_padded is not None:
        padded = read_count("num_tokens_padded", num_tokens_padded)
        require(
            padded >= batch.num_tokens, "num_tokens_padded", padded, f"be >= {batch.num_tokens}, the tokens"
        )
    layout = Layout(
        num_padding_tokens=padded - batch.num_tokens, num_padding_requests=len(rows) - live, garbage="zero"
    )
    return Case(batch, layout)


def _read_lens(
    mode: Any, count: int, live: int, seq_lens: Any, prefix_lens: Any, extend_lens: Any, drafts: Any
) -> list[tuple[int, int]]:
    """Return the context and query length of each live request."""
    if mode == "extend":
        return _read_extend(count, live, seq_lens, prefix_lens, extend_lens)
    lens = read_lens("seq_lens", seq_lens, count)[:live]
    query_len = 1
    if mode == "verify":
        query_len = read_count("draft_token_num", drafts, 1)
    cached = 0 if mode == "verify" else 1
    for b, length in enumerate(lens):
        require_int(f"seq_lens[{b}]", length, 1 + cached)
    return [(length - cached, query_len) for length in lens]


def _read_extend(
    count: int, live: int, seq_lens: Any, prefix_lens: Any, extend_lens: Any
) -> list[tuple[int, int]]:
    """Return the context and query length of each live request of an extend; both sources must agree."""
    query_lens = read_lens("extend_seq_lens", extend_lens, count)
    contexts = [] if prefix_lens is None else read_lens("extend_prefix_lens", prefix_lens, count)
    if seq_lens is not None:
        totals = read_lens("seq_lens", seq_lens, count)
        for b in range(live):
            require(totals[b] >= query_lens[b], f"seq_lens[{b}]", totals[b], f"be >= {query_lens[b]}")
            if contexts:
                rule = f"be {contexts[b]} + {query_lens[b]} = extend_prefix_lens + extend_seq_lens"
                require(totals[b] == contexts[b] + query_lens[b], f"seq_lens[{b}]", totals[b], rule)
        contexts = [total - query for total, query in zip(totals, query_lens, strict=True)]
    for b in range(live, count):
        require(query_lens[b] == 0, f"extend_seq_lens[{b}]", query_lens[b], "be 0: padding")
    return list(zip(contexts[:live], query_lens[:live], strict=True))


def _read_phases(mode: str, live: int, is_prefill: Any) -> list[Phase]:
    if mode != "extend":
        if is_prefill is not None:
            raise Unreadable(f"is_prefill is given, must not be given for forward_mode {mode}")
        return ["decode"] * live
    if is_prefill is None:
        return ["prefill"] * live
    flags = read_flags("is_prefill", is_prefill, live)
    return ["prefill" if flag else "decode" for flag in flags[:live]]


def _read_pages(req_to_token: Any, row: int, seq_len: int, size: int) -> tuple[int, ...]:
    """Return the pages of one pool row; each token's slot must match its page."""
    num_rows = len(req_to_token)
    require(row < num_rows, "req_pool_indices", row, f"be < {num_rows}, the rows of req_to_token")
    slots = read_ints(f"req_to_token[{row}]", req_to_token[row][:seq_len])
    require(len(slots) == seq_len, f"req_to_token[{row}]: number of columns", len(slots), f"be >= {seq_len}")
    pages: list[int] = []
    for position, slot in enumerate(slots):
        name = f"req_to_token[{row}][{position}]"
        if position % size:
            wanted = pages[-1] * size + position % size
            require(slot == wanted, name, slot, f"be {wanted}: the page continues")
            continue
        require(slot >= size, name, slot, f"be >= {size}: page {DUMP_PAGE} is the dump's")
        require(slot % size == 0, name, slot, f"be a multiple of page_size = {size}: a page starts here")
        pages.append(slot // size)
    return tuple(pages)
