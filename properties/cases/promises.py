"""One row per promise of a domain: its valid values, and the cases that go beyond it."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal, Protocol

from cumae.oracle import DENSE, Batch, Case, Request
from cumae.oracle.model.rules import INT32_MAX, require_bool
from cumae.properties.cases.promise import (
    Promise,
    check_head_dims,
    check_latent_dims,
    check_router,
    choice,
    limit,
    names_of,
    of_requests,
    several,
    whole,
)

BLOCK_SIZES = (1, 2, 3, 4, 5, 7, 8, 16, 24, 32, 64, 128, 192, 256, 512, 656, 1056, 4096)
"""Tokens of a block; those beyond 256 are for hybrid models, where a block is as large as a state.

In fp32, a product with the reciprocal of 656 gives a wrong quotient for some positions, as that of 41 does.
With the reciprocals of the other sizes, all positions up to 2^20 are right.
"""
LARGEST_BLOCK = 2**20
MOST_REQUIRED = 2**17
Padding = Literal["written", "untouched", "any", "none"]
PADDINGS: tuple[Padding, ...] = ("written", "untouched", "any", "none")
Order = Literal["any", "decodes_first", "prefills_first", "shortest_first"]


class HasLengths(Protocol):
    """A request, or the work of one."""

    @property
    def phase(self) -> str:
        """``prefill`` or ``decode``."""

    @property
    def query_len(self) -> int:
        """New tokens."""


PLACES: Mapping[Order, Callable[[HasLengths], int]] = {
    "any": lambda request: 0,
    "decodes_first": lambda request: request.phase != "decode",
    "prefills_first": lambda request: request.phase == "decode",
    "shortest_first": lambda request: request.query_len,
}
"""By order, a number of a request that never falls from one of a step to the next."""


def largest_slot(request: Request, block_size: int) -> int:
    """Return the largest slot of a request's blocks, -1 if it has none."""
    return (max(request.block_ids, default=-1) + 1) * block_size - 1


def _count(requests: Sequence[Request]) -> str:
    return f"{len(requests)} requests"


def _strided(promised: bool, case: Case) -> str | None:
    return None if case.layout.strides == DENSE else "strided tensors"


def _padding(promised: Padding, case: Case) -> str | None:
    layout = case.layout
    padded = layout.num_padding_tokens + layout.num_padding_requests + layout.num_padding_slots
    return "padding" if padded else None


def far_rows(case: Case) -> str:
    """Return which rows of a case begin 2^31 elements or more behind the first, "" if none do."""
    layout, batch = case.layout, case.batch
    num_rows = max(len(batch.requests), 1 + max(layout.row_index or (), default=-1))
    columns = layout.min_table_columns + layout.table_row_gap + layout.table_row_multiple - 1
    if (num_rows - 1) * columns > INT32_MAX:
        return "table rows past 2^31"
    gap = max(layout.new_row_gap, layout.key_row_gap)
    if gap and (max(case.num_keys, batch.num_tokens) - 1) * gap > INT32_MAX:
        return "rows past 2^31"
    return ""


def tokens_each(batch: Batch) -> int:
    """Return the number of new tokens of each request if all have the same, else 1."""
    lens = {request.query_len for request in batch.requests}
    return max(lens) or 1 if len(lens) == 1 else 1


def _together(promised: bool, case: Case) -> str | None:
    layout, each = case.layout, tokens_each(case.batch)
    tokens, requests = layout.num_padding_tokens, layout.num_padding_requests
    if layout.num_padding_slots:
        return f"{layout.num_padding_slots} padded slots of no token"
    return None if tokens == each * requests else f"{tokens} padded tokens of {requests} padded requests"


def _of_latents(promised: Any, case: Case) -> str | None:
    rows = case.options.rows
    dims = (rows.kv_lora_rank, rows.qk_rope_head_dim)
    inside = rows.row_format == "fp8" or dims in promised
    return None if inside else f"latent rows of {dims[0]} + {dims[1]}"


def _of_heads(promised: Any, case: Case) -> str | None:
    dims = (case.options.heads.head_dim, case.options.heads.value_dim)
    return None if dims in promised else f"keys of {dims[0]} and values of {dims[1]}"


def _routed(promised: Any, case: Case) -> str | None:
    router = case.options.router
    shape = (router.num_experts, router.num_groups, router.topk_group, router.top_k)
    if shape in promised:
        return None
    return f"{shape[0]} experts in {shape[1]} groups, {shape[2]} kept, top {shape[3]}"


def _begun_prefix(promised: bool, request: Request, case: Case) -> str | None:
    if request.phase == "decode" or request.context_len % case.batch.tokens_per_block == 0:
        return None
    return f"a prefill that begins at position {request.context_len}, inside a block"


def _decode_lens(case: Case) -> set[int]:
    return {r.query_len for r in case.batch.requests if r.phase == "decode"}


def _uniform(promised: bool, case: Case) -> str | None:
    lens = _decode_lens(case)
    return f"decodes of {min(lens)} and of {max(lens)} tokens" if len(lens) > 1 else None


def _verify(promised: bool, case: Case) -> str | None:
    if not case.batch.requests:
        return None
    if any(r.phase == "prefill" for r in case.batch.requests):
        return "a prefill in a verify step"
    lens = _decode_lens(case)
    return None if len(lens) == 1 and min(lens) > 1 else f"decodes of {sorted(lens)} tokens in a verify step"


def _out_of_order(order: Order, case: Case) -> str | None:
    requests = case.batch.requests
    places = list(map(PLACES[order], requests))
    for b, (before, place) in enumerate(pairwise(places)):
        if place < before:
            first, second = (f"a {r.phase} of {r.query_len} tokens" for r in requests[b : b + 2])
            return f"{first} before {second}, requests {b} and {b + 1}"
    return None


_in_reserved = of_requests(
    lambda n, r, c: "a reserved block" if any(0 <= i < n for i in r.block_ids) else None
)


def _without_reserved(promised: int, case: Case) -> str | None:
    have = case.num_cache_blocks
    return f"a cache of {have} blocks" if have < promised else None


CHOICES: Mapping[str, tuple[str, ...]] = {"padding": PADDINGS, "order": tuple(PLACES)}
"""The values of promises that are words."""
PROMISES: Mapping[str, Promise] = {
    "block_sizes": Promise(
        several(whole(1, LARGEST_BLOCK)),
        lambda sizes, c: None if c.batch.block_size in sizes else f"block_size {c.batch.block_size}",
        never=(BLOCK_SIZES,),
    ),
    "min_requests": Promise(
        whole(0, MOST_REQUIRED),
        lambda n, c: _count(c.batch.requests) if len(c.batch.requests) < n else None,
        never=(0,),
    ),
    "max_requests": Promise(
        whole(0), lambda n, c: f"{c.num_requests_padded} requests" if c.num_requests_padded > n else None
    ),
    "min_tokens": Promise(
        whole(0, MOST_REQUIRED),
        lambda n, c: f"{c.batch.num_tokens} tokens" if c.batch.num_tokens < n else None,
        never=(0,),
    ),
    "max_tokens": Promise(
        whole(1),
        lambda n, c: f"{c.num_tokens_padded} tokens" if n < c.num_tokens_padded else None,
        never=(INT32_MAX,),
    ),
    "padding": Promise(choice(CHOICES["padding"]), _padding, never=("written", "untouched", "any")),
    "padded_together": Promise(require_bool, _together, never=(False,)),
    "rowless_requests": Promise(
        require_bool,
        lambda promised, c: "a request without a row" if -1 in (c.layout.row_index or ()) else None,
        never=(True,),
    ),
    "latent_dims": Promise(several(check_latent_dims, or_none=True), _of_latents, never=(None,)),
    "head_dims": Promise(several(check_head_dims, or_none=True), _of_heads, never=(None,)),
    "router_shapes": Promise(several(check_router, or_none=True), _routed, never=(None,)),
    "missing_blocks": Promise(
        require_bool,
        of_requests(
            lambda promised, r, c: (
                "a missing block" if -1 in r.block_ids[: c.batch.num_live_blocks(r)] else None
            )
        ),
        never=(True,),
    ),
    "keeps": Promise(require_bool),
    "strided": Promise(require_bool, _strided, never=(True,)),
    "views": Promise(names_of("argument")),
    "reserved_blocks": Promise(
        whole(0, 1024),
        lambda n, c: _without_reserved(n, c) or _in_reserved(n, c),
        never=(0,),
    ),
    "max_block_id": Promise(
        whole(0),
        of_requests(
            lambda n, r, c: f"block id {max(r.block_ids)}" if max(r.block_ids, default=-1) > n else None
        ),
        never=(INT32_MAX,),
    ),
    "large_slots": Promise(
        require_bool,
        of_requests(
            lambda promised, r, c: (
                "slots past 2^31" if largest_slot(r, c.batch.block_size) > INT32_MAX else None
            )
        ),
        never=(True,),
    ),
    "far_rows": Promise(require_bool, lambda promised, c: far_rows(c) or None, never=(True,)),
    "phases": Promise(
        several(choice(("prefill", "decode"))),
        of_requests(lambda known, r, c: None if r.phase in known else f"a {r.phase}"),
        never=(("prefill", "decode"),),
    ),
    "empty_requests": Promise(
        require_bool,
        of_requests(lambda promised, r, c: None if r.query_len else "an empty request"),
        never=(True,),
    ),
    "max_context_len": Promise(whole(0), limit("context_len")),
    "max_query_len": Promise(whole(0), limit("query_len")),
    "whole_prefixes": Promise(require_bool, of_requests(_begun_prefix), never=(False,)),
    "uniform_decodes": Promise(require_bool, _uniform, never=(False,)),
    "verify_steps": Promise(require_bool, _verify, never=(False,)),
    "order": Promise(choice(CHOICES["order"]), _out_of_order, never=("any",)),
    "captured": Promise(require_bool),
    "all_but": Promise(names_of("check")),
}
"""By field of ``Domain``, in the order in which a case is checked."""
