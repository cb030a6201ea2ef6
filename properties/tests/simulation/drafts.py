"""Samples of draft tokens and slots from free pages, simulated token by token."""

from collections import deque

from cumae.oracle import Batch
from cumae.properties.tests.simulation.tokens import Answer, Place, Token, lives_of, places_of


def draft_steps(
    batch: Batch, drafts: list[int], *, num_padding_tokens: int = 0, num_padding_requests: int = 0
) -> Answer:
    """Return which new tokens are followed by a sample, and whether another new token is there already.

    ``drafts``: of each request. A sample that follows the last token of its request is the bonus; every other
    one is held against the next token, which is a draft.
    """
    rows: list[Token] = [token for life in lives_of(batch) for token in life if token.is_new]
    sampled: set[Token] = set()
    for life, count in zip(lives_of(batch), drafts, strict=True):
        proposed: deque[Token] = deque()
        for token in reversed([token for token in life if token.is_new]):
            if len(proposed) == count:
                sampled |= {token, *proposed}
                break
            proposed.append(token)
    last = {life[-1] for life in lives_of(batch) if life}
    logits: list[object] = []
    targets: list[object] = []
    bonus: list[object] = [0 for _ in batch.requests]
    totals: list[object] = [0 for _ in batch.requests]
    for row, token in enumerate(rows):
        if token not in sampled:
            continue
        if token in last:
            bonus[token.request] = len(logits)
        else:
            targets.append(len(logits))
        logits.append(row)
    verified = 0
    for b, count in enumerate(drafts):
        verified += count
        totals[b] = verified
    room = len(rows) + num_padding_tokens
    return {
        "logits_indices": logits + [0 for _ in range(room - len(logits))],
        "target_logits_indices": targets + [0 for _ in range(room - len(targets))],
        "bonus_logits_indices": bonus + [0 for _ in range(num_padding_requests)],
        "cu_num_draft_tokens": totals + [verified for _ in range(num_padding_requests)],
    }


def allocate_slots(batch: Batch, *, num_padding_tokens: int = 0, num_padding_requests: int = 0) -> Answer:
    """Return where the blocks of each request hold its new tokens, and how many of them held no token before.

    The free list of a case begins with just those blocks.
    """
    places = places_of(batch, 0, 1)
    slots: list[object] = []
    pages: list[object] = []
    for life in lives_of(batch):
        held: list[Place] = [places[token] for token in life if not token.is_new]
        fresh = [places[token] for token in life if token.is_new]
        slots += [place.block * batch.block_size + place.offset for place in fresh]
        pages.append(len({place.block for place in fresh} - {place.block for place in held}))
    return {
        "out_cache_loc": slots + ["untouched" for _ in range(num_padding_tokens)],
        "num_pages": pages + [0 for _ in range(num_padding_requests)],
    }
