"""A case: a batch, the layout in which an engine holds it, and the options."""

from dataclasses import dataclass, field
from typing import Any

from cumae.oracle.model.batch import Batch
from cumae.oracle.model.layout import Layout
from cumae.oracle.model.options import Options
from cumae.oracle.model.rules import INT32_MAX, require


@dataclass(frozen=True, slots=True)
class Case:
    """An immutable input of every operation; it is drawn, replayed, reduced and saved as JSON.

    Raises ``ValueError`` if batch, layout and options contradict each other.
    """

    batch: Batch
    layout: Layout = field(default_factory=Layout)
    options: Options = field(default_factory=Options)

    def __post_init__(self) -> None:
        require(isinstance(self.batch, Batch), "batch", self.batch, "be a Batch")
        require(isinstance(self.layout, Layout), "layout", self.layout, "be a Layout")
        require(isinstance(self.options, Options), "options", self.options, "be Options")
        padded = self.num_tokens_padded
        if padded > INT32_MAX:
            require(False, "num_tokens_padded", padded, f"be <= {INT32_MAX}: token maps are int32")
        self._check_rows()
        self._check_parallel()
        heads, size = self.options.heads, self.batch.block_size
        if not heads.fits_blocks_of(size):
            require(False, "block_size", size, f"be a multiple of {heads.group_items} for shuffled pages")
        layout, options = self.layout, self.options
        if options.padding.dummy_request and layout.num_padding_tokens:
            padded = layout.num_padding_requests
            require(padded >= 1, "layout.num_padding_requests", padded, "be >= 1 for a dummy request")

    def _check_rows(self) -> None:
        rows = self.layout.row_index
        if rows is not None:
            have, need = len(rows), len(self.batch.requests)
            require(have == need, "layout.row_index: number", have, f"be {need}, one for each request")

    def _check_parallel(self) -> None:
        size, world, parallel = self.batch.block_size, self.batch.world, self.options.parallel
        if parallel.rank >= world:
            require(False, "options.parallel.rank", parallel.rank, f"be < world = {world}")
        if size % self.kernel_block_size:
            rule = f"divide block_size = {size}"
            require(False, "options.blocks.kernel_block_size", self.kernel_block_size, rule)
        if world > 1 and size % parallel.interleave:
            rule = f"divide block_size = {size} when world > 1"
            require(False, "options.parallel.interleave", parallel.interleave, rule)

    def laid_out(self, **fields: Any) -> "Case":
        """Return the case with these fields of its layout."""
        return Case(self.batch, self.layout.having(**fields), self.options)

    @property
    def kernel_block_size(self) -> int:
        """Tokens a block of the kernel's table holds."""
        size = self.options.blocks.kernel_block_size
        return self.batch.block_size if size is None else size

    @property
    def num_tokens_padded(self) -> int:
        """Rows of the flattened step, padding included (T)."""
        return self.batch.num_tokens + self.layout.num_padding_tokens

    @property
    def num_requests_padded(self) -> int:
        """Requests, padding included (R)."""
        return len(self.batch.requests) + self.layout.num_padding_requests

    @property
    def num_slots(self) -> int:
        """Entries of the slot buffer."""
        return self.num_tokens_padded + self.layout.num_padding_slots

    @property
    def num_cache_blocks(self) -> int:
        """Blocks of the cache: the largest id plus 1, plus the spare blocks."""
        largest = max((max(r.block_ids, default=-1) for r in self.batch.requests), default=-1)
        return largest + 1 + self.layout.num_spare_blocks

    @property
    def max_num_tokens(self) -> int:
        """Rows of buffers that outlive the step."""
        return self.num_tokens_padded + self.layout.num_spare_tokens

    @property
    def max_work_items(self) -> int:
        """Entries of the lists of work items: the most that a step with these rows can need."""
        return self.num_tokens_padded * -(-self.options.selection.topk // self.options.schedule.split_size)

    @property
    def max_sequence_chunks(self) -> int:
        """Entries of the list of chunks: the most that so many rows of so many requests can be cut into."""
        chunks, rows = self.options.chunks, self.num_tokens_padded
        short = (1 + chunks.absolute_chunks) * self.num_requests_padded
        return min(rows, rows // chunks.chunk_size + short)

    @property
    def window_columns(self) -> int:
        """Columns of a row that lists the slots of a token's window."""
        return max(self.options.keys.window, self.options.window_rows.min_window_columns)

    @property
    def num_keys(self) -> int:
        """Rows of the key buffer that the step needs, uncompressed."""
        return sum(self._key_lens())

    @property
    def capacity(self) -> int:
        """Rows of the key buffer that is given."""
        return max(0, self.num_keys + self.layout.key_slack)

    @property
    def read_capacity(self) -> int:
        """Rows of the buffers that take the keys and values of each request's window."""
        window = self.options.keys.window
        num_rows = sum(min(r.seq_len, window or r.seq_len) for r in self.batch.requests)
        return max(0, num_rows + self.layout.key_slack)

    def _key_lens(self) -> list[int]:
        """Return the keys of each request in the scope."""
        requests, scope = self.batch.requests, self.options.keys.key_scope
        return [request.seq_len for request in requests if scope == "all" or request.phase == "prefill"]

    @property
    def tokens_per_entry(self) -> int:
        """Tokens of a request that one entry of the kernel's table stands for, over all ranks."""
        return self.kernel_block_size * self.batch.world

    @property
    def num_page_columns(self) -> int:
        """Columns of the page table."""
        longest = max((request.seq_len for request in self.batch.requests), default=0)
        return max(0, -(-longest // self.tokens_per_entry) + self.layout.page_slack)

    @property
    def num_page_indices(self) -> int:
        """Entries of the list of pages: a page table's, and at least those of pages with tokens."""
        size = self.batch.block_size
        needed = sum(-(-request.seq_len // size) for request in self.batch.requests)
        return max(needed, self.num_requests_padded * self.num_page_columns)

    @property
    def num_with_context(self) -> int:
        """Requests in the scope of keys that have cached context."""
        everybody = self.options.keys.key_scope == "all"
        return sum(r.context_len > 0 and (everybody or r.phase == "prefill") for r in self.batch.requests)

    @property
    def workspace_tokens(self) -> int:
        """Rows of the workspace into which cached context is gathered, chunk by chunk."""
        workspace = self.options.workspace
        sharers = 1 if workspace.shared_workspace else max(self.num_with_context, 1)
        return sharers * workspace.chunk_blocks * self.batch.block_size + workspace.workspace_slack

    @property
    def num_context_chunks(self) -> int:
        """Chunks of cached context, by the host's bound; 0 if no block of each request fits the workspace."""
        if not self.num_with_context:
            return 0
        size = self.batch.block_size
        chunk_len = self.workspace_tokens // self.num_with_context // size * size
        return -(-self.max_context_len // chunk_len) if chunk_len else 0

    @property
    def max_context_len(self) -> int:
        """The host's upper bound on the cached contexts; 0 if the table has no column or no row."""
        requests = self.batch.requests
        if not requests and not self.layout.num_padding_requests and not self.layout.num_spare_rows:
            return 0
        if not self.layout.num_spare_columns and not any(request.block_ids for request in requests):
            return 0
        return max((request.context_len for request in requests), default=0) + self.layout.context_slack
