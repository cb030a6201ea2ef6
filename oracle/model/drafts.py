"""The draft tokens of a request: how many of a step's last tokens were proposed and are to be verified."""

from cumae.oracle.model.batch import Request


def num_drafts_of(request: Request, max_drafts: int, draft_seed: int = 0) -> int:
    """Return the drafts of a request: at most ``max_drafts``, fewer than its new tokens.

    About half of the requests have the most that they can have, the others any smaller number. The number
    depends on the request alone, so it follows the request into related cases: on its lengths with
    ``draft_seed`` 0, and with another one on its first block too, so that requests of equal lengths differ.

    >>> [num_drafts_of(Request(context_len, 4), 3) for context_len in range(8)]
    [3, 1, 3, 0, 3, 3, 2, 3]
    >>> [num_drafts_of(Request(9, 4, (block,)), 3, 1) for block in range(8)]
    [1, 3, 1, 3, 3, 3, 0, 3]
    """
    most = min(max_drafts, max(request.query_len - 1, 0))
    number = 31 * request.context_len + 17 * request.query_len
    if draft_seed:
        first = request.block_ids[0] if request.block_ids else 0
        number = (number + 1_009 * first + 4_099 * draft_seed) * 0x9E37_79B1 % 2**32 >> 16
    return min(number % (2 * most + 1), most)


def num_logits_of(request: Request, max_drafts: int, draft_seed: int = 0) -> int:
    """Return the rows at which a request samples: one for each draft and one more, none without new tokens.

    >>> num_logits_of(Request(0, 4), 3), num_logits_of(Request(5, 0), 3)
    (4, 0)
    """
    return num_drafts_of(request, max_drafts, draft_seed) + 1 if request.query_len else 0
