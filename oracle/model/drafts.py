"""The draft tokens of a request: how many of a step's last tokens were proposed and are to be verified."""

from cumae.oracle.model.batch import Request


def num_drafts_of(request: Request, max_drafts: int) -> int:
    """Return the drafts of a request: at most ``max_drafts``, fewer than its new tokens.

    About half of the requests have the most that they can have, the others any smaller number. The number
    depends on the request's lengths only, so it follows the request into related cases.

    >>> [num_drafts_of(Request(context_len, 4), 3) for context_len in range(8)]
    [3, 1, 3, 0, 3, 3, 2, 3]
    """
    most = min(max_drafts, max(request.query_len - 1, 0))
    return min((31 * request.context_len + 17 * request.query_len) % (2 * most + 1), most)


def num_logits_of(request: Request, max_drafts: int) -> int:
    """Return the rows at which a request samples: one for each draft and one more, none without new tokens.

    >>> num_logits_of(Request(0, 4), 3), num_logits_of(Request(5, 0), 3)
    (4, 0)
    """
    return num_drafts_of(request, max_drafts) + 1 if request.query_len else 0
