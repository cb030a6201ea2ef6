"""Dtypes and shapes of outputs as the dialect ``cumae`` holds them."""

from collections.abc import Callable

from cumae.oracle import Case


def int32(case: Case) -> str:
    """Return int32, whatever the case."""
    return "int32"


def int64(case: Case) -> str:
    """Return int64, whatever the case."""
    return "int64"


def fp32(case: Case) -> str:
    """Return fp32, whatever the case."""
    return "fp32"


def tokens(case: Case) -> tuple[int, ...]:
    """Return an entry for each padded token."""
    return (case.num_tokens_padded,)


def requests(case: Case) -> tuple[int, ...]:
    """Return an entry for each padded request, and one more."""
    return (case.num_requests_padded + 1,)


def experts(case: Case) -> tuple[int, ...]:
    """Return an entry for each expert that a padded token is routed to."""
    return (case.num_tokens_padded, case.options.router.top_k)


def selected(case: Case) -> tuple[int, ...]:
    """Return an entry for each position that a padded token can select."""
    return (case.num_tokens_padded * case.options.selection.topk,)


def one(case: Case) -> tuple[int, ...]:
    """Return a single entry."""
    return (1,)


def work_items(case: Case) -> tuple[int, ...]:
    """Return an entry for each work item that there is room for."""
    return (case.max_work_items,)


def chunks(case: Case) -> tuple[int, ...]:
    """Return an entry for each chunk of context."""
    return (case.num_context_chunks,)


def chunked(more: int) -> Callable[[Case], tuple[int, ...]]:
    """Return the shape of an output with an entry for each padded request, and some more, in each chunk."""
    return lambda case: (case.num_context_chunks * (case.num_requests_padded + more),)
