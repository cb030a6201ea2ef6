"""Two steps of one engine: what a cached build or a persistent buffer is asked about."""

from collections.abc import Iterator
from dataclasses import replace

from hypothesis import strategies as st

from cumae.oracle import Batch, Case, Request
from cumae.properties.cases.choices import Choices, HypothesisChoices, SeededChoices
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.draws import draw_case, edited

Trace = tuple[Case | None, Case]
FEATURES = frozenset({"topk", "split_size", "num_workers", "host_lens", "num_spare_tokens", "missing_blocks"})
MOST_SELECTED = 2**15


def draw_trace(choices: Choices) -> Trace:
    """Return a step and the one before it: none, the same, one token less in each context, or any other."""
    case = draw_case(choices, Domain(), FEATURES)
    kind = choices.pick(("first", "same", "grown", "other"))
    if kind == "first":
        return None, case
    if kind == "other":
        return one_engine(draw_case(choices, Domain(), FEATURES), case)
    known = case.laid_out(host_lens=not choices.chance(15))
    return one_engine(a_token_ago(known) if kind == "grown" else known, case)


def one_engine(previous: Case, case: Case) -> Trace:
    """Return both steps with the options of the second, its buffers long enough for the first."""
    rows = max(previous.num_tokens_padded, case.max_num_tokens)
    topk = case.options.selection.topk if rows * case.options.selection.topk <= MOST_SELECTED else 2
    options = case.options.having(topk=topk)
    layout = replace(case.layout, num_spare_tokens=rows - case.num_tokens_padded)
    earlier = previous.options.having(
        topk=topk,
        split_size=options.schedule.split_size,
        num_workers=options.schedule.num_workers,
    )
    return replace(previous, options=earlier), replace(case, options=options, layout=layout)


def traces() -> st.SearchStrategy[Trace]:
    """Return a strategy for two steps."""

    @st.composite
    def drawn(draw: st.DrawFn) -> Trace:
        return draw_trace(HypothesisChoices(draw))

    return drawn()


def seeded_traces(seed: int) -> Iterator[Trace]:
    """Yield two steps without end, for one seed after another."""
    while True:
        yield draw_trace(SeededChoices(seed))
        seed += 1


def a_token_ago(case: Case) -> Case:
    """Return the case with contexts one shorter where they can be, or as it is where blocks are shared."""
    requests = [replace(request, context_len=_shorter(request)) for request in case.batch.requests]
    try:
        return edited(case, requests, case.layout.row_index)
    except ValueError:
        return case


def _shorter(request: Request) -> int:
    return max(request.context_len - 1, 1 if request.phase == "decode" else 0)


def step_of(*lens: tuple[int, int], block_size: int = 16) -> Batch:
    """Return the batch of requests of these context and query lengths, each in blocks of its own."""
    requests, taken = [], 1000
    for context_len, query_len in lens:
        count = -(-(context_len + query_len) // block_size)
        taken -= count
        requests.append(Request(context_len, query_len, tuple(range(taken, taken + count))[::-1]))
    return Batch(tuple(requests), block_size)
