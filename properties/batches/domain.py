"""What a kernel promises to handle; generators, fixtures and the reducer stay inside it."""

from dataclasses import dataclass

from cumae.oracle import ROW_FORMATS, Case, IndexDtype, Phase, RowFormat
from cumae.oracle.rules import require, require_bool, require_choice, require_int

BLOCK_SIZES = (1, 2, 3, 4, 5, 7, 16, 24, 64)
MAX_LEN = 2**20
MOST_REQUIRED = 2**17
DEFAULT_DIMS = (512, 64)
LATENT_DIMS = ((1, 0), (2, 1), (3, 2), (8, 4), (16, 8), (33, 7), DEFAULT_DIMS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """The batches a kernel is made for. A case outside is counted as not promised, never as passed.

    ``block_sizes``: tokens a block; ``min_requests``, ``max_requests``: live requests;
    ``empty_requests``: whether requests without a token may stand among the others;
    ``max_context_len``, ``max_query_len``: tokens; ``index_dtypes``: widths of lengths, rows and
    ids; ``strided``: whether non-contiguous tables and rows are promised; ``phases``: of requests;
    ``reserved_blocks``: lowest block ids that belong to no request; ``row_formats`` of latent rows,
    where the operation copies any, and their ``latent_dims``: pairs of kv_lora_rank and
    qk_rope_head_dim, None for any, which fp8 rows do not have; ``captured``: whether calls may
    be captured in CUDA graphs, so that they neither synchronise nor allocate.
    """

    block_sizes: tuple[int, ...] = BLOCK_SIZES
    min_requests: int = 0
    max_requests: int = 2**20
    empty_requests: bool = True
    max_context_len: int = MAX_LEN
    max_query_len: int = MAX_LEN
    index_dtypes: tuple[IndexDtype, ...] = ("int32", "int64")
    strided: bool = True
    phases: tuple[Phase, ...] = ("prefill", "decode")
    reserved_blocks: int = 0
    row_formats: tuple[RowFormat, ...] = ROW_FORMATS
    latent_dims: tuple[tuple[int, int], ...] | None = None
    captured: bool = True

    def __post_init__(self) -> None:
        for name in ("block_sizes", "index_dtypes", "phases", "row_formats"):
            values = getattr(self, name)
            require(isinstance(values, tuple) and bool(values), name, values, "be a tuple of at least one")
        for i, size in enumerate(self.block_sizes):
            require_int(f"block_sizes[{i}]", size, 1, 2**20)
        for i, dtype in enumerate(self.index_dtypes):
            require_choice(f"index_dtypes[{i}]", dtype, ("int32", "int64"))
        for i, row_format in enumerate(self.row_formats):
            require_choice(f"row_formats[{i}]", row_format, ROW_FORMATS)
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
        require_bool("empty_requests", self.empty_requests)
        require_bool("strided", self.strided)
        require_bool("captured", self.captured)
        require_int("max_context_len", self.max_context_len, 0)
        require_int("max_query_len", self.max_query_len, 0)
        able = self.empty_requests or self.max_query_len >= 1
        require(able, "max_query_len", self.max_query_len, "be >= 1 without empty requests")
        able = "prefill" in self.phases or self.max_context_len >= 1
        require(able, "max_context_len", self.max_context_len, "be >= 1 for decodes")

    def why_not(self, case: Case) -> str | None:
        """Return the first promise the case goes beyond, or None when it lies inside."""
        requests, layout = case.batch.requests, case.layout
        if case.batch.block_size not in self.block_sizes:
            return f"block_size {case.batch.block_size}"
        if not self.min_requests <= len(requests) <= self.max_requests:
            return f"{len(requests)} requests"
        if layout.index_dtype not in self.index_dtypes:
            return f"{layout.index_dtype} indices"
        if case.options.row_format not in self.row_formats:
            return f"{case.options.row_format} rows"
        dims = (case.options.kv_lora_rank, case.options.qk_rope_head_dim)
        if self.latent_dims is not None and dims not in (*self.latent_dims, DEFAULT_DIMS):
            return f"latent rows of {dims[0]} + {dims[1]}"
        gaps = layout.table_row_gap + layout.cache_row_gap + layout.key_row_gap
        if not self.strided and (gaps or layout.table_column_step > 1):
            return "strided tensors"
        for b, request in enumerate(requests):
            if any(0 <= block_id < self.reserved_blocks for block_id in request.block_ids):
                return f"a reserved block, request {b}"
            if request.phase not in self.phases:
                return f"a {request.phase}, request {b}"
            if request.query_len == 0 and not self.empty_requests:
                return f"an empty request, {b}"
            if request.context_len > self.max_context_len:
                return f"context_len {request.context_len}, request {b}"
            if request.query_len > self.max_query_len:
                return f"query_len {request.query_len}, request {b}"
        return None
