"""A second look for the cause: if a small case fits several faults, a few more requests decide."""

from collections.abc import Iterator
from dataclasses import replace

from cumae.oracle import Batch, Case, Request
from cumae.properties.comparing.cause import is_possible, likely_cause
from cumae.properties.comparing.evidence import evidence
from cumae.properties.comparing.masks import wrong_elements
from cumae.properties.results.verdict import Finding
from cumae.properties.running.observation import KernelRaised
from cumae.properties.running.trial import Trial

MOST_REQUESTS, MOST_TOKENS = 8, 64
_AS_IT_IS = ((0, 0),) * 3
_LONGER = ((0, 0), (3, 2), (0, 0), (0, 2), (3, 0))


def with_cause(trial: Trial, found: Finding) -> Finding:
    """Return a finding on wrong values with its likely cause.

    If its own case leaves the cause open, as a single 0 does, the function is called on several requests
    like those of the case. A cause found there must give the values of the case too.
    """
    case, binding = trial.quiet.case, trial.binding
    seen, wanted = trial.first, trial.expected
    if found.cause or not found.output or found.index < 0 or seen.outputs[found.output].ndim > 1:
        return found
    if len(case.batch.requests) > MOST_REQUESTS or case.num_tokens_padded > MOST_TOKENS:
        return found
    for other in _others(case):
        if binding.why_not(other) is not None:
            continue
        bench = trial.bench(other, "on several requests like those of the case")
        try:
            second = bench.observe()
        except KernelRaised:
            continue
        want = bench.expected()[found.output]
        shape = second.outputs[found.output].shape
        if shape != want.words.shape or not wrong_elements(second, found.output, want).any():
            continue
        cause = likely_cause(*evidence(binding, second, found.output, want, other))
        here = evidence(binding, seen, found.output, wanted[found.output], case)
        if cause and is_possible(cause, here):
            return replace(found, cause=cause)
    return found


def _others(case: Case) -> Iterator[Case]:
    """Yield batches that repeat the case: first with other lengths in between, then unchanged."""
    rows = case.layout.row_index
    for longer in (_LONGER, _AS_IT_IS):
        requests, taken = [], 1 + max((max(r.block_ids, default=0) for r in case.batch.requests), default=0)
        for context, query in longer:
            for request in case.batch.requests:
                grown = _grown(request, context, query if request.phase == "prefill" else 0)
                count = -(-grown.seq_len // case.batch.tokens_per_block)
                requests.append(replace(grown, block_ids=tuple(range(taken, taken + count))))
                taken += count
        step = max(rows or (0,)) + 1
        every = (
            None
            if rows is None
            else tuple(r + k * step if r >= 0 else r for k in range(len(longer)) for r in rows)
        )
        batch = Batch(tuple(requests), case.batch.block_size, case.batch.world)
        yield replace(case, batch=batch, layout=replace(case.layout, row_index=every))


def _grown(request: Request, context: int, query: int) -> Request:
    """Return the request with more tokens and placeholder blocks; an idle request keeps its lengths."""
    if not request.query_len:
        context = query = 0
    lens = (request.context_len + context, request.query_len + query)
    return Request(*lens, tuple(range(sum(lens))), request.phase)
