"""One row per axis of outputs: the things that an index counts, their number, places and relations."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from cumae.oracle import Case, Request
from cumae.properties.operations.chunk_places import CHUNK_PAIR, SEQUENCE_CHUNK, num_chunks
from cumae.properties.operations.page_places import (
    KEY_PAGE_UNIT,
    LISTED_PAGE,
    PAGE_COLUMN,
    PAGE_UNIT,
    READ_KEY,
    READ_VALUE,
    VALUE_PAGE_UNIT,
    num_pages,
    num_read,
)
from cumae.properties.operations.places import (
    BOUNDARY,
    CACHE_SLOT,
    KEY_ROW,
    NOWHERE,
    TOKEN,
    Placing,
    selected_key,
    token_entry,
)
from cumae.properties.operations.sampled_places import DRAFT, LOGIT, num_drafts, num_logits

Values = Literal["", "slot", "window", "window_start", "window_stop"]


class Extent(NamedTuple):
    """Elements before the padding, and elements including it; the buffer may be longer."""

    num_live: int
    num_padded: int


def _one_entry(case: Case) -> int:
    return 1


@dataclass(frozen=True, slots=True)
class Axis:
    """The items that an index counts: an output of the axis has one element, or several, for each.

    ``counts``: the items in words. ``extent``: items of a case, live and with padding, in each chunk if the
    axis is ``in_chunks``; None if the case does not determine it. ``entries``: elements of each item.
    ``placing``: where an element belongs, for reports. ``values``: the meaning of the elements, for reports
    that show more of a wrong one than its number. ``is_of_tokens``: whether each element is the value of one
    token, so that an arithmetic fault at one token can explain it.

    The other fields say which metamorphic relations hold. ``items``: how many items each request has, in
    request order; None if no element belongs to one request. ``between``: the elements are boundaries between
    requests, or between their items; the growth from one to the next belongs to an item. ``in_chunks``: the
    elements stand in rows, one for each chunk of context. ``ends_on``: the axis of the output with the ends
    of the ranges that begin here. ``is_sorted``: the entries of an item are compared in sorted order.
    ``is_related``: whether any relation holds.
    """

    extent: Callable[[Case], Extent] | None = None
    entries: Callable[[Case], int] = _one_entry
    placing: Placing = NOWHERE
    values: Values = ""
    is_of_tokens: bool = False
    items: Callable[[Request, Case], int] | None = None
    between: Literal["", "requests", "items"] = ""
    in_chunks: bool = False
    ends_on: str = ""
    is_sorted: bool = False
    is_related: bool = True
    counts: str = ""

    @property
    def has_entries(self) -> bool:
        """Whether an item may have several elements."""
        return self.entries is not _one_entry


def _tokens(case: Case) -> Extent:
    return Extent(case.batch.num_tokens, case.num_tokens_padded)


def _requests(case: Case) -> Extent:
    return Extent(len(case.batch.requests), case.num_requests_padded)


def _of_step(items: Callable[[Request, Case], int]) -> Callable[[Case], Extent]:
    """Return the extent of items in a list that has room for one of each row of the step."""
    return lambda case: Extent(sum(items(r, case) for r in case.batch.requests), case.num_tokens_padded)


def _chunks(case: Case) -> Extent:
    return Extent(sum(num_chunks(r, case) for r in case.batch.requests), case.max_sequence_chunks)


def _read(case: Case) -> Extent:
    return Extent(*[sum(num_read(r, case) for r in case.batch.requests)] * 2)


def _starts(extent: Callable[[Case], Extent]) -> Callable[[Case], Extent]:
    return lambda case: Extent(*(count + 1 for count in extent(case)))


def _one(request: Request, case: Case) -> int:
    return 1


def _new(request: Request, case: Case) -> int:
    return request.query_len


def _new_of_prefill(request: Request, case: Case) -> int:
    return request.query_len if request.phase == "prefill" else 0


def _keys(request: Request, case: Case) -> int:
    return request.seq_len if case.options.keys.key_scope == "all" or request.phase == "prefill" else 0


def _selected(case: Case) -> int:
    return case.options.selection.topk


def _window_columns(case: Case) -> int:
    return case.window_columns


def _experts(case: Case) -> int:
    return case.options.router.top_k


_TOKEN = Axis(_tokens, placing=TOKEN, is_of_tokens=True, items=_new, counts="tokens of the step")
_EXPERT = Axis(
    _tokens, _experts, token_entry(_experts), items=_new, is_sorted=True, counts="experts of each token"
)
AXES = {
    "step": Axis(lambda case: Extent(1, 1), counts="the step: one element"),
    "request": Axis(_requests, items=_one, counts="requests"),
    "request_start": Axis(
        _starts(_requests),
        placing=BOUNDARY,
        items=_one,
        between="requests",
        counts="places between requests: a running sum with a leading 0",
    ),
    "token": _TOKEN,
    "token_start": Axis(
        _starts(_tokens),
        items=_new,
        between="items",
        counts="places between tokens: a running sum with a leading 0",
    ),
    "slot": replace(_TOKEN, values="slot", counts="tokens of the step; the values are slots"),
    "window": replace(_TOKEN, values="window", counts="tokens, with two bounds of a window each"),
    "window_start": replace(
        _TOKEN, values="window_start", ends_on="window_stop", counts="tokens; the values are first key rows"
    ),
    "window_stop": replace(
        _TOKEN, values="window_stop", counts="tokens; the values are key rows one past the last"
    ),
    "prefill_window_start": Axis(
        items=_new_of_prefill,
        ends_on="prefill_window_stop",
        counts="tokens of prefills; the values are first key rows",
    ),
    "prefill_window_stop": Axis(
        items=_new_of_prefill, counts="tokens of prefills; the values are key rows one past the last"
    ),
    "key_row": Axis(
        lambda case: Extent(case.num_keys, case.num_keys),
        placing=KEY_ROW,
        items=_keys,
        counts="keys of the step, of all requests",
    ),
    "cache_slot": Axis(placing=CACHE_SLOT, counts="slots of the cache"),
    "page_unit": Axis(placing=PAGE_UNIT, counts="bytes or elements of the pages"),
    "read_key": Axis(
        _read,
        lambda case: case.options.heads.num_heads * case.options.heads.key_units,
        READ_KEY,
        items=num_read,
        counts="bytes or elements of the keys that are gathered",
    ),
    "read_value": Axis(
        _read,
        lambda case: case.options.heads.num_heads * case.options.heads.value_units,
        READ_VALUE,
        items=num_read,
        counts="bytes or elements of the values that are gathered",
    ),
    "key_page_unit": Axis(placing=KEY_PAGE_UNIT, counts="bytes or elements of the pages of keys"),
    "value_page_unit": Axis(placing=VALUE_PAGE_UNIT, counts="bytes or elements of the pages of values"),
    "selected_key": Axis(
        _tokens, _selected, selected_key(_selected), items=_new, counts="selected keys of each token"
    ),
    "window_key": Axis(
        _tokens,
        _window_columns,
        token_entry(_window_columns),
        items=_new,
        counts="columns of each token's window",
    ),
    "expert": _EXPERT,
    # A weight may depend on its row's place: vector code may round differently at its ends.
    "expert_weight": replace(_EXPERT, is_related=False, counts="weights of each token's experts"),
    "page_column": Axis(
        _requests,
        lambda case: case.num_page_columns,
        PAGE_COLUMN,
        items=_one,
        counts="columns of each request's row of pages",
    ),
    "table_row": Axis(_requests, items=_one, counts="requests; the values are rows of the table"),
    "key": Axis(counts="keys in a list"),
    "listed_page": Axis(placing=LISTED_PAGE, items=num_pages, counts="pages of all requests in a list"),
    "logit": Axis(_of_step(num_logits), placing=LOGIT, items=num_logits, counts="rows that are sampled"),
    "draft": Axis(_of_step(num_drafts), placing=DRAFT, items=num_drafts, counts="drafts"),
    "sequence_chunk": Axis(
        _chunks, placing=SEQUENCE_CHUNK, items=num_chunks, counts="chunks of new tokens, of all requests"
    ),
    "chunk_pair": Axis(
        None, lambda case: 2, CHUNK_PAIR, items=num_chunks, counts="chunks, with two numbers each"
    ),
    "cut": Axis(counts="chunks of any kind, without a place in a report"),
    "aligned_window_key": Axis(counts="columns of each token's window, rounded up"),
    "work_item": Axis(counts="work items of a schedule"),
    "worker_start": Axis(counts="places between the workers of a schedule"),
    "chunk_part": Axis(counts="parts of chunks of context"),
    "chunk": Axis(lambda case: Extent(1, 1), in_chunks=True, counts="chunks of context"),
    "chunk_request": Axis(
        _requests, items=_one, in_chunks=True, counts="requests, in a row for each chunk of context"
    ),
    "chunk_start": Axis(
        _starts(_requests),
        items=_one,
        between="requests",
        in_chunks=True,
        counts="places between requests, in a row for each chunk of context",
    ),
}
_UNKNOWN = Axis(is_related=False)


def _live(axis: Axis) -> Axis:
    """Return the axis of outputs without padding."""
    extent = axis.extent
    assert extent is not None
    counts = f"{axis.counts}; without padding"
    return replace(axis, extent=lambda case: Extent(*[extent(case).num_live] * 2), counts=counts)


AXES |= {f"live_{name}": _live(AXES[name]) for name in ("request", "slot", "logit", "draft")}


def axis_named(name: str) -> Axis:
    """Return the row of an axis, or a row without any facts if the axis is unknown."""
    return AXES.get(name, _UNKNOWN)
