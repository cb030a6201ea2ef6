"""Groups of options: the records of the numbers that operations take; every default is the neutral value."""

from dataclasses import dataclass
from typing import Literal

from cumae.oracle.model.rules import require, require_bool, require_choice, require_int

KeyScope = Literal["all", "prefill"]
SelectionOrder = Literal["mixed", "rising", "falling", "alike"]
SELECTION_ORDERS: tuple[SelectionOrder, ...] = ("mixed", "rising", "falling", "alike")


@dataclass(frozen=True, slots=True)
class Parallel:
    """Context parallelism over ``Batch.world`` ranks.

    ``rank``: the rank whose metadata the step computes. ``interleave``: positions that a rank owns in a run.
    """

    rank: int = 0
    interleave: int = 1

    def __post_init__(self) -> None:
        require_int("rank", self.rank, 0)
        require_int("interleave", self.interleave, 1)


@dataclass(frozen=True, slots=True)
class Blocks:
    """``kernel_block_size``: tokens a block of the kernel's table holds; None is the manager's block size."""

    kernel_block_size: int | None = None

    def __post_init__(self) -> None:
        if self.kernel_block_size is not None:
            require_int("kernel_block_size", self.kernel_block_size, 1)


@dataclass(frozen=True, slots=True)
class Keys:
    """The key buffer, and the keys that a token sees in it.

    ``compress_ratio``: tokens behind one row of the buffer. ``window``: keys a token sees, its own
    included; 0 is no limit. ``key_scope``: whose keys the buffer holds.
    """

    compress_ratio: int = 1
    window: int = 0
    key_scope: KeyScope = "all"

    def __post_init__(self) -> None:
        require_int("compress_ratio", self.compress_ratio, 1)
        require_int("window", self.window, 0)
        require_choice("key_scope", self.key_scope, ("all", "prefill"))
        both = self.compress_ratio > 1 and self.window > 0
        require(not both, "window", self.window, "be 0 when compress_ratio > 1")


@dataclass(frozen=True, slots=True)
class Padding:
    """The padding of the token map.

    ``token_padding``: the request that padding rows name, -1 or 0. ``dummy_request``: the last padded
    request takes the padding tokens.
    """

    token_padding: int = -1
    dummy_request: bool = False

    def __post_init__(self) -> None:
        require_choice("token_padding", self.token_padding, (-1, 0))
        require_bool("dummy_request", self.dummy_request)


@dataclass(frozen=True, slots=True)
class Selection:
    """The keys that a token selects in sparse attention.

    ``topk``: keys that a token selects at most. ``select_beyond``: whether some selected positions lie
    beyond the table, where there is no key. ``selected_first``: whether the positions of each row stand
    before its -1. ``selects_fewer``: whether some rows hold fewer positions than they have keys to select.
    ``selection_order``: the order of each row's positions; "mixed" differs from row to row, and "alike" gives
    a row what the row before selects, if its token is the next one and sees as many keys.
    ``selection_seed``: which positions are selected between the least and the last one of a row. With
    another seed than 0, some rows hold -1 between positions unless ``selected_first``, and some hold none if
    ``selects_fewer``.
    ``prefill_workspace``: the keys of prefills that compute something are gathered into a workspace, from
    which their tokens read selected positions. ``workspace_gap``: rows before the keys of each.
    """

    topk: int = 2
    prefill_workspace: bool = False
    select_beyond: bool = False
    selected_first: bool = False
    selects_fewer: bool = False
    selection_order: SelectionOrder = "mixed"
    selection_seed: int = 0
    workspace_gap: int = 0

    def __post_init__(self) -> None:
        require_int("topk", self.topk, 1, 2**16)
        require_bool("prefill_workspace", self.prefill_workspace)
        require_bool("select_beyond", self.select_beyond)
        require_bool("selected_first", self.selected_first)
        require_bool("selects_fewer", self.selects_fewer)
        require_choice("selection_order", self.selection_order, SELECTION_ORDERS)
        require_int("selection_seed", self.selection_seed, 0, 2**16)
        require_int("workspace_gap", self.workspace_gap, 0, 2**16)


@dataclass(frozen=True, slots=True)
class Schedule:
    """Work items of selected keys, and the workers that get them.

    ``split_size``: selected keys of an item at most. ``num_workers``: workers over which items are dealt out.
    """

    split_size: int = 1
    num_workers: int = 1

    def __post_init__(self) -> None:
        require_int("split_size", self.split_size, 1, 2**16)
        require_int("num_workers", self.num_workers, 1, 2**16)


@dataclass(frozen=True, slots=True)
class Workspace:
    """The workspace of cached context.

    ``chunk_blocks``: blocks of each request that it has room for, or of all requests together.
    ``workspace_slack``: rows of the workspace beyond these blocks. ``shared_workspace``: whether requests
    share the blocks.
    """

    chunk_blocks: int = 1
    workspace_slack: int = 0
    shared_workspace: bool = False

    def __post_init__(self) -> None:
        require_int("chunk_blocks", self.chunk_blocks, 1, 2**16)
        require_int("workspace_slack", self.workspace_slack, 0, 2**20)
        require_bool("shared_workspace", self.shared_workspace)


@dataclass(frozen=True, slots=True)
class Drafts:
    """Tokens of requests that were proposed and are verified in this step.

    ``max_drafts``: the most of a request. ``draft_seed``: which requests have fewer; of 0, those of equal
    lengths have as many.
    """

    max_drafts: int = 0
    draft_seed: int = 0

    def __post_init__(self) -> None:
        require_int("max_drafts", self.max_drafts, 0, 2**16)
        require_int("draft_seed", self.draft_seed, 0, 2**16)


@dataclass(frozen=True, slots=True)
class Chunks:
    """Sequences cut into chunks.

    ``chunk_size``: rows of a chunk. ``absolute_chunks``: whether chunks end at multiples of ``chunk_size`` of
    the position, not of the row.
    """

    chunk_size: int = 2
    absolute_chunks: bool = False

    def __post_init__(self) -> None:
        require_int("chunk_size", self.chunk_size, 1, 2**20)
        require_bool("absolute_chunks", self.absolute_chunks)


@dataclass(frozen=True, slots=True)
class WindowRows:
    """Rows that list the slots of a token's window.

    ``min_window_columns``: the least number of columns of a row, which otherwise has ``window`` columns.
    """

    min_window_columns: int = 4

    def __post_init__(self) -> None:
        require_int("min_window_columns", self.min_window_columns, 1, 2**16)


@dataclass(frozen=True, slots=True)
class Ring:
    """A cache with one block for each request.

    ``ring_capacity``: tokens of a block, the last ones of its request.
    """

    ring_capacity: int = 4

    def __post_init__(self) -> None:
        require_int("ring_capacity", self.ring_capacity, 1, 2**20)
