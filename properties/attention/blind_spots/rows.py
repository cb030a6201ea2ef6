"""Blind spots of a step's rows: their requests, positions, offsets and windows."""

from itertools import pairwise

from cumae.oracle import Inputs, local_len
from cumae.properties.attention.answers import Lists
from cumae.properties.attention.blind_spots.spot import BlindSpot, Test, computing, padding_row


def no_prefill_row(inputs: Inputs, right: Lists, wrong: Lists, index: int) -> bool:
    """Return whether the entry belongs to a decode or to padding."""
    rows = [r.phase for r in inputs.case.batch.requests for _ in range(r.query_len)]
    return index >= len(rows) or rows[index] == "decode"


def empty_window(inputs: Inputs, right: Lists, wrong: Lists, index: int) -> bool:
    """Return whether the window is empty in both answers."""
    return bool(right["ks"][index] == right["ke"][index] and wrong["ks"][index] == wrong["ke"][index])


def not_less(name: str) -> Test:
    """Return the test of whether the entry is not smaller than the right one."""
    return lambda inputs, right, wrong, index: bool(wrong[name][index] >= right[name][index])


def no_keys_meet(inputs: Inputs, right: Lists, wrong: Lists, index: int) -> bool:
    """Return whether no attended keys begin at this offset, and none end there or unwritten ones follow."""
    case, now, then = inputs.case, right["cu_seqlens_k"], wrong["cu_seqlens_k"][index]
    world, ratio = inputs["world"], inputs["compress_ratio"]
    readers = computing(inputs)
    if world == ratio == 1:
        return not {index - 1, index} & readers
    needed = {}
    for b in readers:
        request = case.batch.requests[b]
        rows, run = request.seq_len // ratio, inputs["interleave"]
        owned = [local_len(rows, world, rank, run) for rank in range(world)]
        needed[b] = max(owned) if request.phase == "prefill" else 0
    ends_behind_its_keys = now[index - 1] + needed.get(index - 1, 0) <= then <= now[-1]
    return not needed.get(index) and (not needed.get(index - 1) or ends_behind_its_keys)


def same_rows(inputs: Inputs, right: Lists, wrong: Lists, index: int) -> bool:
    """Return whether each token keeps its row of its request, and no computed row is beyond the padding."""
    return _owners(inputs, right) == _owners(inputs, wrong) is not None


def _owners(inputs: Inputs, lists: Lists) -> list[tuple[int, int]] | None:
    starts, padded, longest = lists["cu_seqlens_q"], inputs["num_tokens_padded"], lists["max_seqlen_q"][0]
    owners = [(-1, -1)] * padded
    for b, (first, stop) in enumerate(pairwise(starts)):
        if first < stop and not 0 <= first <= min(stop, first + longest) <= padded:
            return None
        owners[first:stop] = [(b, stop - row) for row in range(first, stop)]
    return owners[: inputs["num_tokens"]]


ROWS = (
    BlindSpot(
        ("sequence_layout",),
        ("token_to_request",),
        "rows of padding",
        "padding rows have no token, and their output is not read",
        padding_row,
    ),
    BlindSpot(
        ("position_ids",),
        ("position_ids",),
        "rows of padding",
        "padding rows have no token, and a row rotated by this position is not written",
        padding_row,
    ),
    BlindSpot(
        ("sequence_layout",),
        ("max_seqlen_q",),
        "larger than the longest",
        "it bounds loops over rows, which end at cu_seqlens",
        not_less("max_seqlen_q"),
    ),
    BlindSpot(
        ("sequence_layout",),
        ("max_seqlen_k",),
        "larger than the longest",
        "it bounds loops over keys, which end at the token's own",
        not_less("max_seqlen_k"),
    ),
    BlindSpot(
        ("sequence_layout",),
        ("max_seqlen_q", "max_seqlen_k", "cu_seqlens_q"),
        "steps without tokens",
        "there is no row to compute",
        lambda inputs, right, wrong, index: inputs["num_tokens"] == 0,
    ),
    BlindSpot(
        ("sequence_layout",),
        ("cu_seqlens_q",),
        "requests without tokens, padded ones too, if each token's row stays with its request",
        "each token's row is still the same row of its request",
        same_rows,
    ),
    BlindSpot(
        ("sequence_layout",),
        ("cu_seqlens_k",),
        "beside requests with keys that no row attends to",
        "no row attends to the keys that begin there, or to those behind the end of its own",
        no_keys_meet,
    ),
    BlindSpot(
        ("causal_windows",),
        ("ks", "ke"),
        "decodes and padding",
        "decodes attend to pages or selected slots, and the output of padding is not read",
        no_prefill_row,
    ),
    BlindSpot(
        ("causal_windows",),
        ("ks", "ke"),
        "windows that are empty and stay so",
        "an empty window contains no key at any position",
        empty_window,
    ),
)
