"""The rows at which a step with draft tokens samples, and the part that each sample plays."""

from collections.abc import Sequence
from typing import NamedTuple

from cumae.oracle.model.rules import require_int


class DraftSteps(NamedTuple):
    """int32: rows of the step [N], indices into these rows [D] and [R], and a running sum of drafts [R]."""

    logits_indices: list[int]
    target_logits_indices: list[int]
    bonus_logits_indices: list[int]
    cu_num_draft_tokens: list[int]


def draft_steps(
    cu_seqlens_q: Sequence[int], num_drafts: Sequence[int], num_requests: int, num_tokens_padded: int
) -> DraftSteps:
    """Return the rows at which the requests of a step sample, and which samples verify a draft.

    ``cu_seqlens_q`` int32 [R + 1]; ``num_drafts`` int32 [R]: how many of a request's last tokens are drafts;
    ``num_requests``: the live ones, which stand first. ``num_tokens_padded``: the room of the first two
    lists.

    A request with d drafts samples at its last d + 1 rows: ``logits_indices``. The sample at a row is the
    token that follows it. The first d samples verify the drafts: ``target_logits_indices``. The last one is
    the bonus token: ``bonus_logits_indices``. Both are indices into ``logits_indices``.
    ``cu_num_draft_tokens`` counts the drafts up to each request, its own included.

    A request without new tokens samples nothing; its bonus index is 0. Behind the live entries, the first
    three lists hold 0, and padded requests repeat the total of drafts.

    Raises ``ValueError`` if a request has no more new tokens than drafts, and for more live requests than
    entries. Source: vLLM's ``_calc_spec_decode_metadata``, where each request has new tokens.

    >>> found = draft_steps([0, 4, 4, 9], num_drafts=[3, 0, 1], num_requests=3, num_tokens_padded=9)
    >>> found.logits_indices, found.target_logits_indices
    ([0, 1, 2, 3, 7, 8, 0, 0, 0], [0, 1, 2, 4, 0, 0, 0, 0, 0])
    >>> found.bonus_logits_indices, found.cu_num_draft_tokens
    ([3, 0, 5], [3, 3, 4])
    """
    require_int("num_requests", num_requests, 0, len(num_drafts))
    found = DraftSteps([], [], [], [])
    for b in range(num_requests):
        num_new = cu_seqlens_q[b + 1] - cu_seqlens_q[b]
        require_int(f"num_drafts[{b}]", num_drafts[b], 0, max(num_new - 1, 0))
        bonus = 0
        for i in range(num_new):
            to_come = num_new - 1 - i
            if to_come > num_drafts[b]:
                continue
            if to_come > 0:
                found.target_logits_indices.append(len(found.logits_indices))
            else:
                bonus = len(found.logits_indices)
            found.logits_indices.append(cu_seqlens_q[b] + i)
        found.bonus_logits_indices.append(bonus)
        found.cu_num_draft_tokens.append(len(found.target_logits_indices))
    total = len(found.target_logits_indices)
    for values, size, padding in (
        (found.logits_indices, num_tokens_padded, 0),
        (found.target_logits_indices, num_tokens_padded, 0),
        (found.bonus_logits_indices, len(num_drafts), 0),
        (found.cu_num_draft_tokens, len(num_drafts), total),
    ):
        values.extend([padding] * (size - len(values)))
    return found
