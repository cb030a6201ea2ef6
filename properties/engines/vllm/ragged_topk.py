"""Selected positions as AMD's kernels read them: no further than each token sees, and as pages."""

from collections.abc import Callable
from typing import Any

import torch

from cumae.oracle import Case, Inputs, Mark
from cumae.oracle.slot_mapping import slot_of
from cumae.properties.dialects import Input, Ints, Output
from cumae.properties.dialects.held import ints
from cumae.properties.engines.pages import having
from cumae.properties.engines.vllm.engine import ENGINE
from cumae.properties.engines.vllm.sparse_lists import LISTS, WHOLE

Tensor = torch.Tensor
_PAGES = 4
"""Pages of a block, as the kernel of sparse pages is compiled here; MiniMax M3 has 8 of 16 tokens."""


def _topk(case: Case) -> int:
    return case.options.selection.topk


def _live(inputs: Inputs) -> list[tuple[int, int, list[int]]]:
    """Return the request, the position and the selected positions of each token."""
    live = inputs["selected_positions"][: inputs.case.batch.num_tokens]
    chosen = [[p for p in row if not isinstance(p, Mark) and p >= 0] for row in live]
    return [*zip(inputs["token_to_request"], inputs["position_ids"], chosen, strict=False)]


def _seen(inputs: Inputs) -> list[list[int]]:
    """Return the slots of each token's first selected positions, as many as the token sees keys."""
    requests, size = inputs.case.batch.requests, inputs.case.batch.block_size
    rows = [
        [slot_of(requests[b].block_ids, p, size) for p in chosen[: position + 1]]
        for b, position, chosen in _live(inputs)
    ]
    return rows + [[]] * inputs.case.layout.num_padding_tokens


def _rows(inputs: Inputs) -> list[int]:
    width = _topk(inputs.case)
    return [slot for row in _seen(inputs) for slot in row + [-1] * (width - len(row))]


def _lens(inputs: Inputs) -> list[int]:
    """Return the entries that the token's row may have: the keys that it sees, the columns at most."""
    width, case = _topk(inputs.case), inputs.case
    lens = [min(position + 1, width) for _, position, _ in _live(inputs)]
    return lens + [0] * case.layout.num_padding_tokens


def _columns(width: int) -> tuple[int, ...]:
    """Return the shape of a row: none for a single number."""
    return (width,) if width else ()


def _output(name: str, axis: str, rule: str, width: Callable[[Case], int], of: Any) -> Output:
    return Output(
        name,
        "int32",
        axis,
        rule,
        follows="selected_slots",
        shape=lambda case: (case.num_tokens_padded, *_columns(width(case))),
        expect=lambda _, inputs: of(inputs),
    )


@ENGINE.adapts(
    "vllm/v1/attention/ops/rocm_aiter_mla_sparse.py",
    "_prefill_topk_global_slots_kernel",
    operation="topk_to_slots",
    dialect=having(
        LISTS,
        "topk_to_slots",
        _output("seen_slots", "seen_slot", "the selected slots that the token sees, then -1", _topk, _rows),
        _output("seen_lens", "seen_row", "the keys that it sees, topk at most", lambda case: 0, _lens),
    ),
    domain=WHOLE,
)
def prefill_topk(kernel: Any) -> Callable[..., None]:
    """AMD: rows of a prefill, cut where a token sees no more keys; without compression."""

    def launch(
        positions_in_front: Tensor,
        token_to_req_indices: Tensor,
        query_start_loc: Tensor,
        seq_lens: Tensor,
        is_live: Tensor,
        block_table: Tensor,
        BLOCK_SIZE: int,
        seen_slots: Tensor,
        seen_lens: Tensor,
    ) -> None:
        rows, width = positions_in_front.shape
        step = (token_to_req_indices, query_start_loc, seq_lens, is_live, block_table, block_table.stride(0))
        outs = (seen_slots, seen_lens, positions_in_front, positions_in_front.stride(0))
        sizes = {"TOPK": width, "COMPRESS_RATIO": 1, "BLOCK_SIZE": BLOCK_SIZE, "BLOCK_W": 64}
        kernel[(rows,)](*outs, *step, 0, 2**30, **sizes)

    return launch


def _chosen_blocks(inputs: Inputs) -> list[list[int]]:
    """Return the blocks of each token's selected positions up to its own, each once, as they come."""
    size = inputs.case.batch.block_size
    return [
        [*dict.fromkeys(p // size for p in chosen if p // size <= position // size)]
        for _, position, chosen in _live(inputs)
    ]


def _blocks_in_rows(inputs: Inputs) -> Ints:
    """Return the blocks as a table, with -1 in front of every second row's and behind all."""
    width, found = _topk(inputs.case) + 1, list[list[int]]()
    for t, row in enumerate(_chosen_blocks(inputs)):
        front = [-1] * (t % 2)
        found.append(front + row + [-1] * (width - len(row) - len(front)))
    return ints(found, "int32", inputs.case.layout.garbage, width=width)


def _pages(inputs: Inputs) -> list[int]:
    """Return the pages of each token's blocks, those of its own block last; 0 behind them."""
    case, found = inputs.case, list[int]()
    steps = zip(_live(inputs), _chosen_blocks(inputs), strict=True)
    for (b, position, _), row in steps:
        own = position // case.batch.block_size
        ordered = sorted(row, key=lambda block: block == own)
        ids = [case.batch.requests[b].block_ids[block] for block in ordered]
        pages = [block * _PAGES + page for block in ids for page in range(_PAGES)]
        found += pages + [0] * ((_topk(case) + 1) * _PAGES - len(pages))
    return found


def _attended(inputs: Inputs) -> list[int]:
    """Return the tokens of the blocks, of the token's own block those up to it."""
    size, found = inputs.case.batch.block_size, list[int]()
    for (_, position, _), row in zip(_live(inputs), _chosen_blocks(inputs), strict=True):
        found.append(sum(min(size, position + 1 - block * size) for block in row))
    return found


_SPARSE_PAGES = having(
    LISTS.extend(blocks_in_rows=Input(_blocks_in_rows, ("topk",)), own_positions="positions"),
    "topk_to_slots",
    _output(
        "sparse_pages",
        "sparse_page",
        "the pages of the selected blocks, the token's own block last",
        lambda case: (_topk(case) + 1) * _PAGES,
        _pages,
    ),
    _output(
        "attended",
        "attended_row",
        "the tokens in these pages up to the token",
        lambda case: 0,
        _attended,
    ),
)
_SPARSE = "vllm/models/minimax_m3/amd/ops/sparse_pa.py"


def _paged(
    kernel: Any, blocks: Tensor, table: Tensor, step: tuple[Tensor, ...], outs: Any, more: Any
) -> None:
    """Launch a kernel of sparse pages on one key head."""
    pages, attended = outs
    width = blocks.shape[1]
    strides = (blocks.stride(0), blocks.stride(1), table.stride(0), pages.stride(0))
    sizes = {"PAGES_PER_BLOCK": _PAGES, "BLOCK_PAGE_STRIDE": _PAGES}
    tile = {"BLOCK_SIZE_T": 1 << (width - 1).bit_length()}
    kernel[(len(attended),)](blocks, table, *step, pages, attended, width, *strides, **sizes, **tile, **more)


@ENGINE.adapts(
    _SPARSE,
    "_build_sparse_block_table_prefill_kernel",
    operation="topk_to_slots",
    dialect=_SPARSE_PAGES,
    domain=WHOLE.having(padding="none", topk=(1, 2, 3, 16)),
)
def sparse_pages_of_prefills(kernel: Any) -> Callable[..., None]:
    """MiniMax M3 on AMD: pages of the blocks that each token selects."""

    def launch(
        blocks_in_rows: Tensor,
        block_table: Tensor,
        token_to_req_indices: Tensor,
        own_positions: Tensor,
        BLOCK_SIZE: int,
        sparse_pages: Tensor,
        attended: Tensor,
    ) -> None:
        step = (token_to_req_indices, own_positions.int())
        more = {"SPARSE_BLOCK_SIZE_C": BLOCK_SIZE}
        _paged(kernel, blocks_in_rows, block_table, step, (sparse_pages, attended), more)

    return launch


@ENGINE.adapts(
    _SPARSE,
    "_build_sparse_block_table_kernel",
    operation="topk_to_slots",
    dialect=_SPARSE_PAGES,
    domain=WHOLE.having(
        padding="none",
        topk=(1, 2, 3, 16),
        phases=("decode",),
        uniform_decodes=True,
        empty_requests=False,
        max_query_len=8,
    ),
)
def sparse_pages_of_decodes(kernel: Any) -> Callable[..., None]:
    """The same for decodes of as many tokens each, whose positions follow from the lengths."""

    def launch(
        blocks_in_rows: Tensor,
        block_table: Tensor,
        seq_lens: Tensor,
        max_query_len: int,
        BLOCK_SIZE: int,
        sparse_pages: Tensor,
        attended: Tensor,
    ) -> None:
        more = {"SPARSE_BLOCK_SIZE_C": BLOCK_SIZE, "DECODE_QUERY_LEN": max_query_len}
        _paged(kernel, blocks_in_rows, block_table, (seq_lens,), (sparse_pages, attended), more)

    return launch
