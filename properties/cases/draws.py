"""The rules by which whole cases are drawn, the same for Hypothesis and for a seed."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from cumae.oracle import Batch, Case, Layout, Options, Request
from cumae.properties.cases.choices import Choices
from cumae.properties.cases.domain import DEFAULT_DIMS, LATENT_DIMS, ROUTER_SHAPES, Domain
from cumae.properties.cases.requests import (
    REQUEST_COUNTS,
    Work,
    draw_permutation,
    draw_work,
    give_blocks,
)

FEATURES = frozenset(
    (
        "compress_ratio",
        "context_slack",
        "dummy_request",
        "host_lens",
        "interleave",
        "kernel_block_size",
        "key_scope",
        "key_slack",
        "missing_blocks",
        "num_padding_slots",
        "num_spare_tokens",
        "num_workers",
        "power_of_two_scales",
        "prefill_workspace",
        "rank",
        "renormalize",
        "router",
        "row_format",
        "row_index",
        "scaling_factor",
        "split_size",
        "token_padding",
        "topk",
        "window",
        "workspace",
        "world",
    )
)
TOPKS = (2, 1, 3, 8, 64, 2048)
SPLIT_SIZES = (1, 2, 3, 4, 64, 256)
WORKERS = (1, 2, 3, 7, 132)
MOST_SELECTED = 2**14
SCALES = (1000, 2500, 2827, 1, 16000)


def draw_case(choices: Choices, domain: Domain, features: Collection[str] = FEATURES) -> Case:
    """Return a case of the domain; only ``features`` differ from their neutral value."""
    block_size = choices.pick(domain.block_sizes)
    world = choices.pick((1, 1, 2, 3, 4)) if "world" in features else 1
    works = _with_tokens(choices, _draw_works(choices, domain, block_size * world), domain)
    missing, reserved = "missing_blocks" in features, domain.reserved_blocks
    requests = give_blocks(choices, works, block_size * world, missing=missing, reserved=reserved)
    batch = Batch(requests, block_size, world)
    layout = draw_layout(choices, domain, batch, features)
    return Case(batch, layout, draw_options(choices, domain, batch, layout, features))


def _draw_works(choices: Choices, domain: Domain, tokens_per_block: int) -> list[Work]:
    """Return a few requests of their own, or many short ones that repeat a few drawn patterns."""
    most = min(domain.max_requests, 6)
    if most >= domain.min_requests and "decode" in domain.phases and choices.chance(12):
        return _draw_alike(choices, domain, most, tokens_per_block)
    if most >= domain.min_requests and not choices.chance(4):
        count = choices.integer(domain.min_requests, most)
        return [draw_work(choices, domain, tokens_per_block, large=count <= 3) for _ in range(count)]
    counts = [n for n in REQUEST_COUNTS if domain.min_requests <= n <= domain.max_requests]
    count = choices.pick(counts or (domain.min_requests,))
    most_tokens = max(3, 2000 // max(count, 1))
    narrow = replace(
        domain,
        min_tokens=0,
        max_context_len=min(domain.max_context_len, most_tokens),
        max_query_len=min(domain.max_query_len, most_tokens),
    )
    patterns = [
        draw_work(choices, narrow, tokens_per_block, large=False) for _ in range(choices.integer(1, 4))
    ]
    return [patterns[b % len(patterns)] for b in range(count)]


def _draw_alike(choices: Choices, domain: Domain, most: int, tokens_per_block: int) -> list[Work]:
    """Return decodes that compute as many tokens each: what a graph is captured of, and a verify step."""
    query_len = min(choices.pick((1, 2, 3, 5)), domain.max_query_len)
    decodes = replace(domain, phases=("decode",), min_tokens=0)
    works = [
        draw_work(choices, decodes, tokens_per_block, large=False)
        for _ in range(choices.integer(max(domain.min_requests, min(most, 1)), most))
    ]
    return [replace(work, query_len=query_len) for work in works]


def _with_tokens(choices: Choices, works: list[Work], domain: Domain) -> list[Work]:
    """Return the works with as many tokens as the domain asks of a step, or as they have."""
    missing = domain.min_tokens - sum(work.query_len for work in works)
    if missing <= 0:
        return works
    first = choices.integer(0, max(len(works) - 1, 0))
    for b in (*range(first, len(works)), *range(first)):
        more = min(missing, domain.max_query_len - works[b].query_len)
        works[b] = replace(works[b], query_len=works[b].query_len + more)
        missing -= more
    while missing:
        phase = domain.phases[0]
        works.append(Work(phase, int(phase == "decode"), min(missing, domain.max_query_len)))
        missing -= works[-1].query_len
    return works


def draw_layout(
    choices: Choices, domain: Domain, batch: Batch, features: Collection[str] = FEATURES
) -> Layout:
    """Return a layout for the batch: padding, rows, tails, strides and widths."""
    strided = domain.strided and choices.chance(40)
    wide = any(request.block_ids for request in batch.requests)
    padded = domain.padding != "none"
    return Layout(
        num_padding_tokens=_slack(choices) if padded else 0,
        num_padding_requests=choices.pick((0, 0, 1, 3)) if padded else 0,
        num_padding_slots=choices.pick((0, 0, 1, 5)) if padded and "num_padding_slots" in features else 0,
        key_slack=choices.pick((0, 0, 1, 9, -1, -3)) if "key_slack" in features else 0,
        row_index=_draw_rows(choices, len(batch.requests), domain) if "row_index" in features else None,
        num_spare_rows=choices.pick((0, 0, 1, 2)),
        num_spare_columns=choices.pick((0, 1, 3)),
        num_spare_blocks=choices.pick((0, 1, 4)),
        table_row_gap=choices.pick((0, 1, 3)) if strided else 0,
        table_column_step=choices.pick((1, 1, 2)) if strided else 1,
        cache_row_gap=choices.pick((0, 1, 8)) if strided else 0,
        key_row_gap=choices.pick((0, 1, 8)) if strided else 0,
        garbage=choices.pick(("minus_one", "zero", "plausible", "huge")),
        index_dtype=choices.pick(domain.index_dtypes),
        context_slack=choices.pick((0, 0, 1, 100)) if "context_slack" in features and wide else 0,
        num_spare_tokens=choices.pick((0, 0, 1, 5, 40)) if "num_spare_tokens" in features else 0,
        host_lens=not choices.chance(15) if "host_lens" in features else True,
    )


def _slack(choices: Choices) -> int:
    if choices.chance(10):
        return choices.pick((30, 60, 124, 250, 1020))
    return choices.pick((0, 0, 1, 2, 5))


def _draw_rows(choices: Choices, count: int, domain: Domain) -> tuple[int, ...] | None:
    """Return scattered rows of a larger table, now and then none for a request; None is the identity."""
    if not count or choices.chance(25):
        return None
    size = count + choices.integer(0, 3)
    step, first = draw_permutation(choices, size)
    rows = [(first + b * step) % size for b in range(count)]
    if domain.rowless_requests and choices.chance(10):
        rows[choices.integer(0, count - 1)] = -1
    return tuple(rows)


def draw_options(
    choices: Choices, domain: Domain, batch: Batch, layout: Layout, features: Collection[str]
) -> Options:
    """Return options for a batch held in a layout; only ``features`` differ from their neutral value."""
    size = batch.block_size
    divisors = [d for d in range(1, size + 1) if size % d == 0]
    keys = choices.pick(("plain", "compressed", "window"))
    compressed = keys == "compressed" and "compress_ratio" in features and batch.world == 1
    windowed = keys == "window" and "window" in features and batch.world == 1
    dummy = "dummy_request" in features and (
        layout.num_padding_requests > 0 or layout.num_padding_tokens == 0
    )
    rank, rope = DEFAULT_DIMS
    row_format = choices.pick(domain.row_formats) if "row_format" in features else "bf16"
    if "row_format" in features:
        dims = sorted(domain.latent_dims or LATENT_DIMS)
        rank, rope = choices.pick(dims[:-1] or dims) if not choices.chance(5) else dims[-1]
    return Options(
        rank=choices.integer(0, batch.world - 1) if "rank" in features else 0,
        interleave=choices.pick(divisors) if "interleave" in features and batch.world > 1 else 1,
        kernel_block_size=choices.pick(divisors[::-1]) if "kernel_block_size" in features else None,
        compress_ratio=choices.pick((2, 3, 4, 128)) if compressed else 1,
        window=choices.pick((1, 2, 3, 4, 16, 129)) if windowed else 0,
        key_scope=choices.pick(("all", "prefill")) if "key_scope" in features else "all",
        token_padding=choices.pick((-1, 0)) if "token_padding" in features else -1,
        dummy_request=dummy and choices.chance(30),
        row_format=row_format,
        power_of_two_scales="power_of_two_scales" in features and row_format == "fp8" and choices.chance(50),
        kv_lora_rank=rank,
        qk_rope_head_dim=rope,
        topk=_draw_topk(choices, batch, layout) if "topk" in features else 2,
        split_size=choices.pick(SPLIT_SIZES) if "split_size" in features else 1,
        num_workers=choices.pick(WORKERS) if "num_workers" in features else 1,
        chunk_blocks=choices.pick((1, 2, 3, 16)) if "workspace" in features else 1,
        workspace_slack=choices.pick((0, 0, 1, 7, 100)) if "workspace" in features else 0,
        scaling_thousandths=choices.pick(SCALES) if "scaling_factor" in features else 1000,
        renormalize=not choices.chance(25) if "renormalize" in features else True,
        **(_draw_router(choices, domain, batch, layout) if "router" in features else {}),
        prefill_workspace="prefill_workspace" in features and choices.chance(40),
    )


def _draw_router(choices: Choices, domain: Domain, batch: Batch, layout: Layout) -> dict[str, Any]:
    """Return shape, logits and biases of a router: many experts only where the rows are few."""
    num_rows = batch.num_tokens + layout.num_padding_tokens
    shapes = domain.router_shapes or ROUTER_SHAPES
    fits = [shape for shape in shapes if num_rows * shape[0] <= MOST_SELECTED]
    shape = choices.pick(fits or (min(shapes),))
    names = ("num_experts", "num_groups", "topk_group", "top_k")
    return {
        **dict(zip(names, shape, strict=True)),
        "logits_dtype": choices.pick(domain.logits_dtypes),
        "bias_dtype": choices.pick((domain.bias_dtypes[0], *domain.bias_dtypes)),
        "logits_kind": choices.pick(domain.logits_kinds),
        "logits_seed": choices.integer(0, 999),
    }


def _draw_topk(choices: Choices, batch: Batch, layout: Layout) -> int:
    """Return the keys that a token selects at most: many only where the rows are few."""
    num_rows = batch.num_tokens + layout.num_padding_tokens + layout.num_spare_tokens
    fits = [topk for topk in TOPKS[3:] if num_rows * topk <= MOST_SELECTED]
    return choices.pick((*TOPKS[:3], *fits))


def draw_large_case(
    choices: Choices, domain: Domain, features: Collection[str], num_requests: int, num_tokens: int
) -> Case:
    """Return a case of exactly so many requests and tokens: 64 drawn patterns and one long prefill."""
    block_size = choices.pick([size for size in domain.block_sizes if size >= 16] or domain.block_sizes)
    patterns = [draw_work(choices, domain, block_size, large=False) for _ in range(64)]
    works: list[Work] = []
    left = num_tokens
    for b in range(num_requests - 1):
        work = patterns[choices.integer(0, 63)]
        if work.query_len > left - (num_requests - 1 - b):
            work = Work(work.phase, work.context_len, min(work.query_len, 1))
        works.append(work)
        left -= work.query_len
    works.insert(num_requests // 2, Work("prefill", 3 * block_size + 1, left))
    requests = give_blocks(choices, works, block_size, missing=False, reserved=domain.reserved_blocks)
    batch = Batch(requests, block_size)
    layout = draw_layout(choices, domain, batch, features)
    neutral_world = set(features) - {"world", "rank", "interleave"}
    return Case(batch, layout, draw_options(choices, domain, batch, layout, neutral_world))


def permuted(case: Case, order: list[int]) -> Case:
    """Return the case with its requests in another order, rows of the table going along."""
    rows = case.layout.row_index
    return edited(
        case,
        [case.batch.requests[b] for b in order],
        None if rows is None else tuple(rows[b] for b in order),
    )


def renamed(case: Case, offset: int) -> Case:
    """Return the case with every block id raised by ``offset``."""
    requests = [
        replace(r, block_ids=tuple(i + offset if i >= 0 else i for i in r.block_ids))
        for r in case.batch.requests
    ]
    return edited(case, requests, case.layout.row_index)


def edited(case: Case, requests: list[Request], row_index: tuple[int, ...] | None) -> Case:
    """Return the case with other requests, everything else kept."""
    batch = Batch(tuple(requests), case.batch.block_size, case.batch.world)
    return Case(batch, replace(case.layout, row_index=row_index), case.options)
