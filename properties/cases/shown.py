"""The shapes and sizes of cases that a function can show, by its options, inputs and domain."""

from collections.abc import Callable, Collection

from cumae.properties.cases.domain import Domain
from cumae.properties.cases.shapes import SHAPES, SIZES

_REQUESTS = (
    "context_lens",
    "query_lens",
    "seq_lens",
    "cu_seqlens_q",
    "token_to_request",
    "slot_mapping",
)
_CONTEXTS = ("context_lens", "seq_lens", "position_ids", "chunk_context_lens", "last_loc", "slot_mapping")
_TABLE = ("block_table",)
_BLOCKS = ("block_table", "slot_mapping", "free_pages")
_SIZES = (*_BLOCKS, "block_size", "page_size", "tokens_per_entry")
_OF: dict[str, tuple[str, ...]] = {
    "no requests": _REQUESTS,
    "one request": _REQUESTS,
    "two requests": _REQUESTS,
    "31-33 requests": _REQUESTS,
    "127-129 requests": _REQUESTS,
    "1023-1025 requests": _REQUESTS,
    "prefill": _REQUESTS,
    "decode": _REQUESTS,
    "decodes": _REQUESTS,
    "empty request": _REQUESTS,
    "all requests empty": _REQUESTS,
    "first request has": _CONTEXTS,
    "prefill, later": _CONTEXTS,
    "idle request": _CONTEXTS,
    "length": _REQUESTS,
    "length block_size": _SIZES,
    "block size": _SIZES,
    "prefix hit": _BLOCKS,
    "partly filled": _BLOCKS,
    "block ids": _BLOCKS,
    "missing blocks": ("missing_blocks",),
    "spare blocks": _TABLE,
    "spare table": _TABLE,
    "gaps between table": _TABLE,
    "steps between table": _TABLE,
    "table by columns": _TABLE,
    "rows scattered": ("row_index",),
    "request without a row": ("row_index",),
    "gaps between cached rows": ("row_format",),
    "gaps between blocks alone": ("row_format",),
    "gaps of new rows": ("row_format",),
    "slot buffer": ("num_padding_slots",),
    "capacity": ("key_slack",),
    "context parallel": ("world",),
    "context parallel, interleaved": ("interleave",),
    "hybrid blocks": ("kernel_block_size",),
    "compressed keys": ("compress_ratio",),
    "compressed keys on several ranks": ("world",),
    "sliding window": ("window",),
    "sliding window on several ranks": ("world",),
    "window shorter": ("window",),
    "keys of prefills": ("key_scope",),
    "dummy request": ("dummy_request",),
    "fewer keys": ("topk",),
    "keys reach": ("topk",),
    "context beyond topk": ("topk",),
    "several prefills": ("prefill_workspace",),
    "topk": ("topk",),
    "topk a multiple": ("split_size",),
    "topk no multiple": ("split_size",),
    "split_size": ("split_size",),
    "more workers": ("num_workers",),
    "items dealt": ("num_workers",),
    "no work items": ("split_size",),
    "lengths unknown": ("host_lens",),
    "buffers longer": ("num_spare_tokens",),
    "rows of": ("row_format",),
    "rows 512": ("row_format",),
    "logits": ("router",),
    "choices": ("router",),
    "biases": ("router",),
    "bias of": ("router",),
    "256 experts": ("router",),
    "experts without": ("router",),
    "weights not": ("renormalize",),
    "tokens in a request": _REQUESTS,
    "cached tokens": _CONTEXTS,
    "requests": _REQUESTS,
    "padded requests": _REQUESTS,
}
"""By the beginning of its name, what a function must see to show a shape or a size; every match must hold."""
_PROMISED: dict[str, Callable[[Domain], bool]] = {
    "no requests": lambda d: d.min_requests == 0 and d.min_tokens == 0,
    "one request": lambda d: d.min_requests <= 1 <= d.max_requests,
    "two requests": lambda d: d.min_requests <= 2 <= d.max_requests,
    "31-33": lambda d: d.max_requests >= 31,
    "127-129": lambda d: d.max_requests >= 127,
    "1023-1025": lambda d: d.max_requests >= 1023,
    "prefill": lambda d: not d.only_decodes,
    "several prefills": lambda d: not d.only_decodes,
    "prefill and decode": lambda d: "decode" in d.phases,
    "decode": lambda d: "decode" in d.phases,
    "decodes": lambda d: "decode" in d.phases and d.max_requests >= 2,
    "decode of one token": lambda d: not d.verify_steps,
    "decodes of one token": lambda d: not d.verify_steps,
    "empty request": lambda d: d.empty_requests,
    "all requests empty": lambda d: d.empty_requests and d.min_tokens == 0,
    "idle request": lambda d: d.empty_requests,
    "no work items": lambda d: d.min_tokens == 0,
    "no tokens": lambda d: d.min_tokens == 0 and d.padding != "none",
    "block size 1": lambda d: 1 in d.sizes,
    "block size 16": lambda d: 16 in d.sizes,
    "block size 64": lambda d: 64 in d.sizes,
    "block size no power": lambda d: any(size & (size - 1) for size in d.sizes),
    "missing blocks": lambda d: d.missing_blocks,
    "request without a row": lambda d: d.rowless_requests,
    "gaps": lambda d: d.strided,
    "steps between": lambda d: d.strided,
    "table by columns": lambda d: d.strided,
    "tensors that begin": lambda d: d.strided,
    "tokens padded": lambda d: d.padding != "none" and not d.padded_together,
    "requests padded": lambda d: d.padding != "none" and not d.padded_together,
    "slot buffer": lambda d: not d.padded_together,
    "padding over": lambda d: d.padding != "none",
    "padded": lambda d: d.padding != "none",
}
"""By the beginning of its name, whether a domain promises cases that show a shape."""


def shown_by(features: Collection[str], inputs: Collection[str], domain: Domain) -> frozenset[str]:
    """Return the names of the shapes and sizes that a function's cases can show.

    ``features``: the options that its cases vary; ``inputs``: those of its operation's oracle.
    """
    words = {*features, *inputs}
    return frozenset(name for name in (*SHAPES, *SIZES) if _is_shown(name, words, domain))


def _is_shown(name: str, words: Collection[str], domain: Domain) -> bool:
    seen = all(any(word in words for word in of) for start, of in _OF.items() if begins(name, start))
    return seen and all(holds(domain) for start, holds in _PROMISED.items() if begins(name, start))


def begins(name: str, start: str) -> bool:
    """Return whether a name begins with these words.

    >>> begins("block size 1", "block size"), begins("block size 16", "block size 1")
    (True, False)
    """
    return name == start or (name.startswith(start) and name[len(start)] in " ,")
