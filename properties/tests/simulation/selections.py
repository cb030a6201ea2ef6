"""Selections and chunks of contexts simulated token by token."""

from collections import deque
from itertools import islice

from cumae.oracle import Batch
from cumae.properties.tests.simulation.tokens import Answer, Token, groups_of, kept_of, lives_of, places_of


def topk_to_slots(
    batch: Batch,
    selected: list[list[int]],
    *,
    num_padding_tokens: int = 0,
    topk: int,
    rank: int = 0,
    interleave: int = 1,
    has_workspace: bool = False,
    workspace_gap: int = 0,
) -> Answer:
    """Return where a rank's cache holds the tokens that each new token selected, -1 where it does not.

    With a workspace, prefills that compute something read their tokens there, gathered one by one.
    Rows of a gap are left free before each.
    """
    workspace: dict[tuple[int, int], int] = {}
    free = iter(range(2**31))
    if has_workspace:
        for life in lives_of(batch):
            if any(token.is_new and batch.requests[token.request].phase == "prefill" for token in life):
                for _ in range(workspace_gap):
                    next(free)
                for token in life:
                    workspace[token.request, token.number] = next(free)
    places = {
        (token.request, token.number): place for token, place in places_of(batch, rank, interleave).items()
    }
    answer: list[object] = []
    rows = [token for life in lives_of(batch) for token in life if token.is_new]
    for token, numbers in zip(rows, selected, strict=False):
        for number in numbers:
            if (token.request, token.number) in workspace:
                answer.append(workspace.get((token.request, number), -1))
                continue
            place = places.get((token.request, number))
            answer.append(-1 if place is None else place.block * batch.block_size + place.offset)
    return {"selected_slots": answer + [-1 for _ in range(num_padding_tokens) for _ in range(topk)]}


def compact_topk_slots(selected_slots: list[object], *, topk: int) -> Answer:
    """Return the slots of each row with every -1 moved behind the others, and how many stay in front."""
    slots: list[object] = []
    counts: list[object] = []
    for group in groups_of(range(len(selected_slots)), topk):
        row = [selected_slots[index] for index in group]
        num_gaps = 0
        for index in range(len(row) - 1, -1, -1):
            if row[index] == -1:
                row.append(row.pop(index))
                num_gaps += 1
        slots += row
        counts.append(topk - num_gaps)
    return {"compact_slots": slots, "num_valid": counts}


def chunked_context(
    batch: Batch,
    *,
    num_padding_requests: int = 0,
    key_scope: str = "all",
    workspace_tokens: int,
    max_context_len: int,
) -> Answer:
    """Return what each chunk holds: room is handed out in rounds of blocks, then contexts are read off."""
    contexts = [
        deque(token for token in kept_of(batch, b, life, key_scope) if not token.is_new)
        for b, life in enumerate(lives_of(batch))
    ]
    contexts.extend(deque() for _ in range(num_padding_requests))
    holders = [context for context in contexts if context]
    share: list[int] = []
    room = iter(range(workspace_tokens))
    round_of_blocks = len(holders) * batch.block_size
    while holders and len(list(islice(room, round_of_blocks))) == round_of_blocks:
        share.extend(range(batch.block_size))
    names = ("chunk_starts", "chunk_lens", "chunk_cu_seqlens", "chunk_totals", "chunk_maxima")
    answer: Answer = {name: [] for name in names}
    bound = deque(range(max_context_len if holders else 0))
    while bound:
        start, held, longest = bound[0], list[Token](), 0
        answer["chunk_cu_seqlens"].append(0)
        for context in contexts:
            part = [context.popleft() for _ in share if context]
            held.extend(part)
            longest = max(longest, len(part))
            answer["chunk_starts"].append(start)
            answer["chunk_lens"].append(len(part))
            answer["chunk_cu_seqlens"].append(len(held))
        answer["chunk_totals"].append(len(held))
        answer["chunk_maxima"].append(longest)
        for _ in share:
            if bound:
                bound.popleft()
    return answer
