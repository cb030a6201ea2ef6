"""The slots that a step's new tokens get from the free pages of a cache."""

from collections.abc import Sequence
from typing import NamedTuple

from cumae.oracle.model.marks import UNTOUCHED, Mark
from cumae.oracle.model.rules import require, require_int


class AllocateSlots(NamedTuple):
    """``out_cache_loc`` int64 [T], the slots of new tokens; ``num_pages`` int32 [R], pages taken."""

    out_cache_loc: list[int | Mark]
    num_pages: list[int]


def allocate_slots(
    last_loc: Sequence[int],
    prefix_lens: Sequence[int],
    seq_lens: Sequence[int],
    num_requests: int,
    free_pages: Sequence[int],
    page_size: int,
    num_tokens_padded: int,
) -> AllocateSlots:
    """Return a slot for each new token, and how many free pages each request takes.

    ``last_loc`` int64 [R]: the slot of a request's last cached token, -1 for none; it is not read where the
    prefix ends with a page. ``prefix_lens``, ``seq_lens`` int [R]: tokens before and after the step.
    ``num_requests``: the live ones, which stand first. ``free_pages`` int64 [F], in the order in which they
    are taken; ``page_size`` in tokens.

    Request by request, new tokens fill the rest of the last page, then whole pages from the front of the
    list. Rows of ``out_cache_loc`` behind the last new token are untouched. Padded requests take no page.

    Raises ``ValueError`` for too few pages, for lengths that fall, for a last slot that does not lie where
    its prefix ends, and for more live requests than entries.
    Sources: SGLang's ``alloc_extend_kernel``, ``alloc_decode_kernel``.

    >>> allocate_slots([29, -1, -1], [2, 0, 0], [5, 0, 2], num_requests=3, free_pages=[3, 8, 6], page_size=4,
    ...                num_tokens_padded=6)
    AllocateSlots(out_cache_loc=[30, 31, 12, 32, 33, UNTOUCHED], num_pages=[1, 0, 1])
    """
    require_int("num_requests", num_requests, 0, len(seq_lens))
    require_int("page_size", page_size, 1)
    left = list(reversed(free_pages))
    slots: list[int | Mark] = []
    num_pages = [0] * len(seq_lens)
    for b in range(num_requests):
        require_int(f"seq_lens[{b}]", seq_lens[b], prefix_lens[b])
        slot = last_loc[b]
        follows = slot >= 0 and (slot + 1) % page_size == prefix_lens[b] % page_size
        rule = f"be the slot of position {prefix_lens[b] - 1} in a page of {page_size}"
        require(prefix_lens[b] % page_size == 0 or follows, f"last_loc[{b}]", slot, rule)
        for position in range(prefix_lens[b], seq_lens[b]):
            slot += 1
            if position % page_size == 0:
                require(bool(left), "free_pages: number", len(free_pages), "be enough for the step")
                slot = left.pop() * page_size
                num_pages[b] += 1
            slots.append(slot)
    return AllocateSlots(slots + [UNTOUCHED] * (num_tokens_padded - len(slots)), num_pages)
