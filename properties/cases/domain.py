"""What a kernel promises to handle; generators, fixtures and the reducer stay inside it."""

from dataclasses import dataclass
from typing import Literal

from cumae.oracle import (
    FLOAT_DTYPES,
    LOGITS_KINDS,
    ROW_FORMATS,
    Case,
    FloatDtype,
    IndexDtype,
    LogitsKind,
    Phase,
    Request,
    RowFormat,
)
from cumae.oracle.grouped_topk import check_router_shape
from cumae.oracle.model.rules import INT32_MAX, require, require_bool, require_choice, require_int

BLOCK_SIZES = (1, 2, 3, 4, 5, 7, 16, 24, 64)
MAX_LEN = 2**20
MOST_REQUIRED = 2**17
LARGEST_BLOCK = 2**20
LARGEST_BLOCK_OF_SMALL_SLOTS = 2**12
"""Of blocks this large as many as a drawn case needs have slots below 2^31."""

Padding = Literal["written", "untouched", "none"]
PADDINGS: tuple[Padding, ...] = ("written", "untouched", "none")
DEFAULT_DIMS = (512, 64)
ROUTER_SHAPES = (
    (8, 2, 1, 2),
    (4, 2, 1, 1),
    (4, 1, 1, 3),
    (12, 3, 2, 5),
    (16, 4, 4, 4),
    (32, 8, 3, 6),
    (64, 1, 1, 6),
    (160, 8, 3, 6),
    (256, 8, 4, 8),
    (384, 1, 1, 8),
)
"""Experts, groups, groups kept, experts selected; the last ones of DeepSeek-V2, DeepSeek-V3 and Kimi K2."""
LATENT_DIMS = ((1, 0), (2, 1), (3, 2), (8, 4), (16, 8), (33, 7), DEFAULT_DIMS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """The batches a kernel is made for. A case outside is counted as not promised, never as passed.

    ``block_sizes``: tokens a block; ``min_requests``, ``max_requests``: live requests;
    ``empty_requests``: whether requests without a token may stand among the others; ``min_tokens``: new
    tokens of a step, 1 for a kernel that is not called without any; ``rowless_requests``: whether a
    request may have no row of the table, -1; ``padding``: ``written`` where padded elements of outputs are
    what the operation says, ``untouched`` where they keep what they held, ``none`` where no step is padded;
    ``large_slots``: whether slots of 2^31 and more are promised;
    ``max_context_len``, ``max_query_len``: tokens; ``index_dtypes``: widths of lengths, rows and
    ids; ``strided``: whether non-contiguous tables and rows are promised; ``phases``: of requests;
    ``reserved_blocks``: lowest block ids that belong to no request; ``row_formats`` of latent rows,
    where the operation copies any, and their ``latent_dims``: pairs of kv_lora_rank and
    qk_rope_head_dim, None for any, which fp8 rows do not have; ``captured``: whether calls may
    be captured in CUDA graphs, so that they neither synchronise nor allocate. Of a router, ``router_shapes``:
    experts, groups, groups kept and experts selected, None for any; ``logits_dtypes``, ``bias_dtypes``, and
    the ``logits_kinds``, of which ``nan_and_inf`` is one; exact ties are in ``equal``, ``ties`` and
    ``close_biases``, and what breaks them otherwise is tested under ``router(ties="any")``.
    """

    block_sizes: tuple[int, ...] = BLOCK_SIZES
    min_requests: int = 0
    max_requests: int = 2**20
    empty_requests: bool = True
    min_tokens: int = 0
    rowless_requests: bool = True
    padding: Padding = "written"
    large_slots: bool = True
    max_context_len: int = MAX_LEN
    max_query_len: int = MAX_LEN
    index_dtypes: tuple[IndexDtype, ...] = ("int32", "int64")
    strided: bool = True
    phases: tuple[Phase, ...] = ("prefill", "decode")
    reserved_blocks: int = 0
    row_formats: tuple[RowFormat, ...] = ROW_FORMATS
    latent_dims: tuple[tuple[int, int], ...] | None = None
    captured: bool = True
    router_shapes: tuple[tuple[int, int, int, int], ...] | None = None
    logits_dtypes: tuple[FloatDtype, ...] = FLOAT_DTYPES
    bias_dtypes: tuple[FloatDtype, ...] = FLOAT_DTYPES
    logits_kinds: tuple[LogitsKind, ...] = LOGITS_KINDS

    def __post_init__(self) -> None:
        lists = ("block_sizes", "index_dtypes", "phases", "row_formats")
        for name in (*lists, "logits_dtypes", "bias_dtypes", "logits_kinds"):
            values = getattr(self, name)
            require(isinstance(values, tuple) and bool(values), name, values, "be a tuple of at least one")
        for name in ("latent_dims", "router_shapes"):
            values = getattr(self, name)
            rule = "be None or a tuple of at least one"
            require(values is None or (isinstance(values, tuple) and bool(values)), name, values, rule)
        for i, size in enumerate(self.block_sizes):
            require_int(f"block_sizes[{i}]", size, 1, LARGEST_BLOCK)
            small = self.large_slots or size <= LARGEST_BLOCK_OF_SMALL_SLOTS
            rule = f"be <= {LARGEST_BLOCK_OF_SMALL_SLOTS} without large slots"
            require(small, f"block_sizes[{i}]", size, rule)
        for i, dtype in enumerate(self.index_dtypes):
            require_choice(f"index_dtypes[{i}]", dtype, ("int32", "int64"))
        for i, row_format in enumerate(self.row_formats):
            require_choice(f"row_formats[{i}]", row_format, ROW_FORMATS)
        for name, known in (
            ("logits_dtypes", FLOAT_DTYPES),
            ("bias_dtypes", FLOAT_DTYPES),
            ("logits_kinds", LOGITS_KINDS),
        ):
            for i, value in enumerate(getattr(self, name)):
                require_choice(f"{name}[{i}]", value, known)
        for i, shape in enumerate(self.router_shapes or ()):
            four = isinstance(shape, tuple) and len(shape) == 4
            rule = "be experts, groups, groups kept and experts selected"
            require(four, f"router_shapes[{i}]", shape, rule)
            check_router_shape(*shape)
        for i, dims in enumerate(self.latent_dims or ()):
            pair = isinstance(dims, tuple) and len(dims) == 2
            require(pair, f"latent_dims[{i}]", dims, "be a pair of kv_lora_rank and qk_rope_head_dim")
            require_int(f"latent_dims[{i}]: kv_lora_rank", dims[0], 1, 2**16)
            require_int(f"latent_dims[{i}]: qk_rope_head_dim", dims[1], 0, 2**16)
        for i, phase in enumerate(self.phases):
            require_choice(f"phases[{i}]", phase, ("prefill", "decode"))
        require_int("reserved_blocks", self.reserved_blocks, 0, 1024)
        require_int("min_requests", self.min_requests, 0, MOST_REQUIRED)
        require_int("max_requests", self.max_requests, self.min_requests)
        for name in ("empty_requests", "rowless_requests", "large_slots", "strided", "captured"):
            require_bool(name, getattr(self, name))
        require_choice("padding", self.padding, PADDINGS)
        require_int("min_tokens", self.min_tokens, 0, MOST_REQUIRED)
        require_int("max_context_len", self.max_context_len, 0)
        require_int("max_query_len", self.max_query_len, 0)
        able = self.empty_requests or self.max_query_len >= 1
        require(able, "max_query_len", self.max_query_len, "be >= 1 without empty requests")
        most = self.max_requests * self.max_query_len
        rule = f"be <= {most}: requests have no more"
        require(self.min_tokens <= most, "min_tokens", self.min_tokens, rule)
        able = "prefill" in self.phases or self.max_context_len >= 1
        require(able, "max_context_len", self.max_context_len, "be >= 1 for decodes")

    def why_not(self, case: Case) -> str | None:
        """Return the first promise the case goes beyond, or None when it lies inside."""
        requests, layout = case.batch.requests, case.layout
        if case.batch.block_size not in self.block_sizes:
            return f"block_size {case.batch.block_size}"
        if not self.min_requests <= len(requests) <= self.max_requests:
            return f"{len(requests)} requests"
        if case.batch.num_tokens < self.min_tokens:
            return f"{case.batch.num_tokens} tokens"
        padded = layout.num_padding_tokens + layout.num_padding_requests + layout.num_padding_slots
        if self.padding == "none" and padded:
            return "padding"
        if not self.rowless_requests and -1 in (layout.row_index or ()):
            return "a request without a row"
        if layout.index_dtype not in self.index_dtypes:
            return f"{layout.index_dtype} indices"
        if case.options.row_format not in self.row_formats:
            return f"{case.options.row_format} rows"
        dims = (case.options.kv_lora_rank, case.options.qk_rope_head_dim)
        if self.latent_dims is not None and case.options.row_format != "fp8" and dims not in self.latent_dims:
            return f"latent rows of {dims[0]} + {dims[1]}"
        router = self._why_not_routed(case)
        if router is not None:
            return router
        gaps = layout.table_row_gap + layout.cache_row_gap + layout.key_row_gap
        if not self.strided and (gaps or layout.table_column_step > 1):
            return "strided tensors"
        for b, request in enumerate(requests):
            if any(0 <= block_id < self.reserved_blocks for block_id in request.block_ids):
                return f"a reserved block, request {b}"
            if not self.large_slots and largest_slot(request, case.batch.block_size) > INT32_MAX:
                return f"slots past 2^31, request {b}"
            if request.phase not in self.phases:
                return f"a {request.phase}, request {b}"
            if request.query_len == 0 and not self.empty_requests:
                return f"an empty request, {b}"
            if request.context_len > self.max_context_len:
                return f"context_len {request.context_len}, request {b}"
            if request.query_len > self.max_query_len:
                return f"query_len {request.query_len}, request {b}"
        return None

    def _why_not_routed(self, case: Case) -> str | None:
        """Return which promise about routers the case goes beyond."""
        options = case.options
        shape = (options.num_experts, options.num_groups, options.topk_group, options.top_k)
        if self.router_shapes is not None and shape not in self.router_shapes:
            return f"{shape[0]} experts in {shape[1]} groups, {shape[2]} kept, top {shape[3]}"
        if options.logits_dtype not in self.logits_dtypes:
            return f"{options.logits_dtype} logits"
        if options.bias_dtype not in self.bias_dtypes:
            return f"a bias of {options.bias_dtype}"
        return None if options.logits_kind in self.logits_kinds else f"{options.logits_kind} logits"


def largest_slot(request: Request, block_size: int) -> int:
    """Return the largest slot of a request's blocks, -1 where it has none."""
    return (max(request.block_ids, default=-1) + 1) * block_size - 1
