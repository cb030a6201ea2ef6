"""Oracles of drafts and of free pages that are wrong in one way."""

from collections.abc import Sequence

from cumae.oracle import AllocateSlots, DraftSteps, allocate_slots, draft_steps


def first_rows_are_sampled(
    cu_seqlens_q: Sequence[int], num_drafts: Sequence[int], num_requests: int, num_tokens_padded: int
) -> DraftSteps:
    """A request samples at its first d + 1 rows, as if every new token but the last were a draft."""
    right = draft_steps(cu_seqlens_q, num_drafts, num_requests, num_tokens_padded)
    rows: list[int] = []
    for b in range(num_requests):
        if cu_seqlens_q[b] < cu_seqlens_q[b + 1]:
            rows += range(cu_seqlens_q[b], cu_seqlens_q[b] + num_drafts[b] + 1)
    return right._replace(logits_indices=rows + [0] * (num_tokens_padded - len(rows)))


def bonus_by_row(
    cu_seqlens_q: Sequence[int], num_drafts: Sequence[int], num_requests: int, num_tokens_padded: int
) -> DraftSteps:
    """The bonus index is the row of the step, not an index into the sampled rows."""
    right = draft_steps(cu_seqlens_q, num_drafts, num_requests, num_tokens_padded)
    rows = [right.logits_indices[i] if right.logits_indices else 0 for i in right.bonus_logits_indices]
    return right._replace(bonus_logits_indices=rows)


def drafts_before_the_request(
    cu_seqlens_q: Sequence[int], num_drafts: Sequence[int], num_requests: int, num_tokens_padded: int
) -> DraftSteps:
    """The running sum of drafts begins with 0 and leaves out the last request."""
    right = draft_steps(cu_seqlens_q, num_drafts, num_requests, num_tokens_padded)
    return right._replace(cu_num_draft_tokens=[0, *right.cu_num_draft_tokens][:-1])


def full_pages_go_on(
    last_loc: Sequence[int],
    prefix_lens: Sequence[int],
    seq_lens: Sequence[int],
    num_requests: int,
    free_pages: Sequence[int],
    page_size: int,
    num_tokens_padded: int,
) -> AllocateSlots:
    """A prefix that ends with a page goes on in the slot behind it."""
    case = (last_loc, prefix_lens, seq_lens, num_requests, free_pages, page_size, num_tokens_padded)
    right = allocate_slots(*case)
    row = 0
    for b in range(num_requests):
        num_new = seq_lens[b] - prefix_lens[b]
        if num_new and prefix_lens[b] and prefix_lens[b] % page_size == 0:
            right.out_cache_loc[row] = last_loc[b] + 1
        row += num_new
    return right


def pages_of_new_tokens_alone(
    last_loc: Sequence[int],
    prefix_lens: Sequence[int],
    seq_lens: Sequence[int],
    num_requests: int,
    free_pages: Sequence[int],
    page_size: int,
    num_tokens_padded: int,
) -> AllocateSlots:
    """Pages are counted without the room that the last page of a request has."""
    case = (last_loc, prefix_lens, seq_lens, num_requests, free_pages, page_size, num_tokens_padded)
    lens = zip(prefix_lens[:num_requests], seq_lens[:num_requests], strict=True)
    counts = [-(-(after - before) // page_size) for before, after in lens]
    return allocate_slots(*case)._replace(num_pages=counts + [0] * (len(seq_lens) - num_requests))
