"""Blind spots of gathered keys: those of a prefix among new ones, and chunks of a context in a workspace."""

from itertools import pairwise

from cumae.oracle import Inputs
from cumae.properties.attention.answers import Lists, cache_shape
from cumae.properties.attention.blind_spots.spot import BlindSpot, computing


def unread_key(inputs: Inputs, right: Lists, wrong: Lists, index: int) -> bool:
    """Return whether the key row belongs to no request that computes something, and its new source exists."""
    spans = [*pairwise(inputs["cu_seqlens_k"])]
    (blocks, _, size, _), _ = cache_shape(inputs.case)
    match wrong["keys"][index]:
        case ("cache", block, offset):
            exists = 0 <= block * size + offset < blocks * size
        case ("new", row):
            exists = 0 <= row < inputs["num_tokens_padded"]
        case _:
            exists = True
    return exists and not any(index in range(*spans[b]) for b in computing(inputs))


def longer_than_any(inputs: Inputs, right: Lists, wrong: Lists, index: int) -> bool:
    """Return whether no chunk that is attended to is longer."""
    first = index * inputs["num_requests_padded"]
    longest = max((right["chunk_lens"][first + b] for b in computing(inputs)), default=0)
    return bool(longest == 0 or wrong["chunk_maxima"][index] >= longest)


def room_for_all(inputs: Inputs, right: Lists, wrong: Lists, index: int) -> bool:
    """Return whether the total lies between the rows of the chunk and the size of the workspace.

    For an empty chunk it may also be below 0.
    """
    now, then = right["chunk_totals"][index], wrong["chunk_totals"][index]
    return bool(now <= then <= inputs["workspace_tokens"] or then <= now == 0)


def unread_chunk(inputs: Inputs, right: Lists, wrong: Lists, index: int) -> bool:
    """Return whether the chunk is shorter, and its request computes nothing or it should be empty."""
    idle = index % inputs["num_requests_padded"] not in computing(inputs)
    now, then = right["chunk_lens"][index], wrong["chunk_lens"][index]
    return bool(then <= now and (idle or now == 0))


def rows_of_their_own(inputs: Inputs, right: Lists, wrong: Lists, index: int) -> bool:
    """Return whether each request attends to exactly the rows that it gathered, and no two share a row."""
    num_requests = inputs["num_requests_padded"]
    j = index // (num_requests + 1)
    offsets = wrong["chunk_cu_seqlens"][j * (num_requests + 1) :]
    lens = wrong["chunk_lens"][j * num_requests : (j + 1) * num_requests]
    gathered = [offsets[b] + i for b, length in enumerate(lens) for i in range(length)]
    inside = all(0 <= row < wrong["chunk_totals"][j] for row in gathered)
    longest = wrong["chunk_maxima"][j]
    spans = {b: max(0, min(offsets[b + 1] - offsets[b], longest)) for b in computing(inputs)}
    return inside and len({*gathered}) == len(gathered) and all(n == lens[b] for b, n in spans.items())


CHUNKS = (
    BlindSpot(
        ("prefix_interleave",),
        ("keys",),
        "keys of requests that compute nothing",
        "no row attends to them",
        unread_key,
    ),
    BlindSpot(
        ("chunked_context",),
        ("chunk_maxima",),
        "larger than the longest chunk that is attended to",
        "it bounds loops over keys, which end at chunk_cu_seqlens",
        longer_than_any,
    ),
    BlindSpot(
        ("chunked_context",),
        ("chunk_totals",),
        "larger than the sum, within the workspace",
        "the additional rows belong to no request",
        room_for_all,
    ),
    BlindSpot(
        ("chunked_context",),
        ("chunk_starts",),
        "chunks of length 0",
        "a chunk of length 0 gathers nothing",
        lambda inputs, right, wrong, index: right["chunk_lens"][index] == wrong["chunk_lens"][index] == 0,
    ),
    BlindSpot(
        ("chunked_context",),
        ("chunk_lens",),
        "smaller, for requests that compute nothing, and below 0 instead of 0",
        "no row attends to the keys that are not gathered",
        unread_chunk,
    ),
    BlindSpot(
        ("chunked_context",),
        ("chunk_cu_seqlens",),
        "if each request still attends to the rows that it gathered, and no two gather one row",
        "the rows of a workspace may have any order",
        rows_of_their_own,
    ),
)
