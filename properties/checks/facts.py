"""Facts that relate answers to each other and need no oracle; kernels and oracles are held to them alike."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np

from cumae.oracle import Case, Inputs, Request, kv_lens_of
from cumae.properties.batches.cases import edited, permuted, renamed
from cumae.properties.running.memory import Words

Answer = Mapping[str, Words]
PER_TOKEN = ("position_ids", "slot_mapping", "expert_ids")
PER_REQUEST = ("cu_seqlens_q", "cu_seqlens_k")
SELECTED = ("selected_slots", "compact_slots")
SLOTS = ("slot_mapping", *SELECTED)
CHUNKED = ("chunk_starts", "chunk_lens", "chunk_cu_seqlens")


@dataclass(frozen=True, slots=True)
class Fact:
    """``relate`` gives the other cases a fact speaks of; ``broken`` what their answers break, or None."""

    rule: str
    relate: Callable[[Case], list[Case]]
    broken: Callable[[Case, Answer, list[Answer]], str | None]


def _starts(case: Case) -> list[int]:
    return [0, *accumulate(request.query_len for request in case.batch.requests)]


def _tokens_of(starts: list[int], words: Words, b: int) -> Words:
    return words[starts[b] : starts[b + 1]]


def _same(found: Words, wanted: Words) -> bool:
    return bool(np.array_equal(found, wanted))


def _middle(case: Case) -> int:
    return (len(case.batch.requests) + 1) // 2


def _with_empty(case: Case) -> list[Case]:
    requests, rows, at = list(case.batch.requests), case.layout.row_index, _middle(case)
    requests.insert(at, Request(0, 0))
    return [edited(case, requests, None if rows is None else (*rows[:at], -1, *rows[at:]))]


def _empty_changes_indices_only(case: Case, base: Answer, others: list[Answer]) -> str | None:
    found, at, num_chunks = others[0], _middle(case), case.num_context_chunks
    for name, words in base.items():
        other = found[name]
        if name in PER_REQUEST:
            other = np.delete(other, at)
        elif name in CHUNKED and num_chunks:
            other = np.delete(other.reshape(num_chunks, -1), at, axis=1).ravel()
        elif name in ("token_to_request", "request_of_row"):
            n = case.batch.num_tokens
            other = np.concatenate([other[:n] - (other[:n] > at), other[n:]])
        elif name in PER_TOKEN:  # padding may be that of requests, of which there is one more
            words, other = words[: case.batch.num_tokens], other[: case.batch.num_tokens]
        elif name == "keys":
            words, other = words[: case.num_keys], other[: case.num_keys]
        elif name == "kv_indices":
            num_selected = sum(Inputs(case).call(kv_lens_of))
            words, other = words[:num_selected], other[:num_selected]
        if not _same(other, words):
            return f"`{name}` changed when an empty request was inserted at {at}"
    return None


def _reversed(case: Case) -> list[Case]:
    return [permuted(case, list(range(len(case.batch.requests)))[::-1])]


def _order_moves_answers(case: Case, base: Answer, others: list[Answer]) -> str | None:
    found, count = others[0], len(case.batch.requests)
    starts, moved = _starts(case), _starts(_reversed(case)[0])
    lens, moved_lens = ((a["ke"] - a["ks"] if "ks" in a else None) for a in (base, found))
    for b in range(count):
        for name in PER_TOKEN:
            if name in base and not _same(
                _tokens_of(moved, found[name], count - 1 - b), _tokens_of(starts, base[name], b)
            ):
                return f"`{name}` of request {b} changed when the requests were reversed"
        if (
            lens is not None
            and moved_lens is not None
            and not _same(_tokens_of(moved, moved_lens, count - 1 - b), _tokens_of(starts, lens, b))
        ):
            return f"the window length of request {b} changed when the requests were reversed"
    for name in PER_REQUEST:
        if name in base and count and not case.options.dummy_request:
            live, other = np.diff(base[name][: count + 1]), np.diff(found[name][: count + 1])
            if not _same(live[::-1], other):
                return f"the steps of `{name}` did not move with the requests"
    if "chunk_lens" in base and case.num_context_chunks:
        lens_by_chunk = (a["chunk_lens"].reshape(case.num_context_chunks, -1) for a in (base, found))
        live, other = (lens[:, :count] for lens in lens_by_chunk)
        if not _same(live[:, ::-1], other):
            return "`chunk_lens` did not move with the requests"
    return None


def _halves(case: Case) -> list[Case]:
    at, rows = _middle(case), case.layout.row_index
    requests = list(case.batch.requests)
    first = edited(case, requests[:at], None if rows is None else rows[:at])
    return [first, edited(case, requests[at:], None if rows is None else rows[at:])]


def _halves_stand_one_after_the_other(case: Case, base: Answer, others: list[Answer]) -> str | None:
    first, second = _halves(case)
    split, n = first.batch.num_tokens, case.batch.num_tokens
    for name in (*PER_TOKEN, "ks", "ke"):
        if name not in base:
            continue
        head, tail = others[0][name][:split], others[1][name][: n - split]
        if name in ("ks", "ke"):
            tail = np.where(others[1]["ke"][: n - split] > 0, tail + _num_key_rows(first), tail)
            tail = np.where(_unseen(second, others[1])[: n - split], base[name][split:n], tail)
        if not _same(np.concatenate([head, tail]), base[name][:n]):
            return f"`{name}` of two batches in one step is not that of the first, then of the second"
    if "keys" in base:
        rows = min(first.num_keys, first.capacity, case.capacity)
        if not _same(others[0]["keys"][:rows], base["keys"][:rows]):
            return "`keys` of the first half changed when other requests followed"
    return None


def _num_key_rows(case: Case) -> int:
    scope, ratio = case.options.key_scope, case.options.compress_ratio
    kept = [r for r in case.batch.requests if scope == "all" or r.phase == "prefill"]
    return sum(request.seq_len // ratio for request in kept)


def _unseen(case: Case, answer: Answer) -> Words:
    """Tokens whose window is (0, 0): a decode, or a prefill token before any complete group."""
    return np.asarray((answer["ke"] == 0) & (answer["ks"] == 0))


def _longest(case: Case) -> int:
    lens = [request.query_len for request in case.batch.requests]
    return max(range(len(lens)), key=lens.__getitem__, default=-1)


def _chunks(case: Case) -> list[Case]:
    b = _longest(case)
    if b < 0 or case.batch.requests[b].query_len < 2:
        return []
    requests, request = list(case.batch.requests), case.batch.requests[b]
    cut = (request.query_len + 1) // 2
    steps = []
    for context_len, query_len in (
        (request.context_len, cut),
        (request.context_len + cut, request.query_len - cut),
    ):
        requests[b] = replace(request, context_len=context_len, query_len=query_len)
        steps.append(edited(case, requests, case.layout.row_index))
    return steps


def _chunks_say_the_same(case: Case, base: Answer, others: list[Answer]) -> str | None:
    b, starts, steps = _longest(case), _starts(case), [_starts(step) for step in _chunks(case)]
    for name in PER_TOKEN:
        if name in base:
            parts = [_tokens_of(step, other[name], b) for step, other in zip(steps, others, strict=True)]
            if not _same(np.concatenate(parts), _tokens_of(starts, base[name], b)):
                return f"`{name}` of request {b} in two chunks is not that of one"
    if "ks" in base:
        parts = [_tokens_of(s, o["ke"] - o["ks"], b) for s, o in zip(steps, others, strict=True)]
        if not _same(np.concatenate(parts), _tokens_of(starts, base["ke"] - base["ks"], b)):
            return f"the window lengths of request {b} in two chunks are not those of one"
    return None


def _renamed(case: Case) -> list[Case]:
    return [renamed(case, 1)]


def _renaming_moves_slots(case: Case, base: Answer, others: list[Answer]) -> str | None:
    for name in SLOTS:
        if name in base:
            slots = base[name]
            moves = slots >= 0
            if name in SELECTED:
                moves &= ~_in_workspace(case)
            if not _same(others[0][name], np.where(moves, slots + case.batch.block_size, slots)):
                return f"`{name}` did not move by one block when every block id did"
    return None


def _in_workspace(case: Case) -> Words:
    """Return which selected positions are read in a workspace, which no block has a part in."""
    ids = Inputs(case)["workspace_ids"]
    rows = np.zeros(case.num_tokens_padded, dtype=bool) if ids is None else np.array(ids) >= 0
    return np.repeat(rows, case.options.topk)


FACTS = {
    "empty_request": Fact(
        "inserting a request with context 0 and query 0 changes only indices",
        _with_empty,
        _empty_changes_indices_only,
    ),
    "order": Fact(
        "permuting requests permutes positions, slots, experts, lengths of windows and of chunks",
        _reversed,
        _order_moves_answers,
    ),
    "halves": Fact(
        "batch A followed by B is A's answer, then B's shifted", _halves, _halves_stand_one_after_the_other
    ),
    "chunks": Fact("one chunk of n tokens says the same as several", _chunks, _chunks_say_the_same),
    "renaming": Fact("renaming physical blocks renames slots", _renamed, _renaming_moves_slots),
}
