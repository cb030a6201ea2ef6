"""The inputs of a case by name, as integers and lists; oracles are called with them.

A name means the same everywhere: an oracle's parameter, a key of the JSON vectors, and the
argument of a kernel in the dialect ``cumae``. Entries that must not be read are ``GARBAGE``.
"""

import inspect
from collections.abc import Callable, Hashable, Mapping
from functools import lru_cache
from typing import Any, ClassVar

from cumae.oracle.any_chunks import chunk_alignment
from cumae.oracle.model.block_table import block_table, table_rows
from cumae.oracle.model.case import Case
from cumae.oracle.model.drafts import num_drafts_of
from cumae.oracle.model.logits import bias, logits
from cumae.oracle.model.marks import GARBAGE
from cumae.oracle.model.pages import free_pages, last_locs
from cumae.oracle.model.rules import require
from cumae.oracle.model.selections import selected_positions, topk_indices, workspace_ids, workspace_starts
from cumae.oracle.position_ids import position_ids
from cumae.oracle.sequence_layout import SequenceLayout, sequence_layout
from cumae.oracle.slot_mapping import slot_mapping
from cumae.oracle.sparse_schedule import kv_lens_of


class Inputs:
    """The named inputs of one case, each computed once, when it is asked for.

    ``previous``: the step before, of the same engine; without it, inputs named ``previous_…`` are 0 or None.
    ``known``: values by name that replace those of the case.
    Raises ``ValueError`` if ``previous`` has another ``topk``, ``split_size`` or ``num_workers``.

    >>> from cumae.oracle import Batch, Request
    >>> case = Case(Batch((Request(2, 1, (5,), "decode"), Request(0, 0), Request(0, 2, (3,))), 4))
    >>> Inputs(case)["cu_seqlens_q"], Inputs(case)["block_table"]
    ([0, 1, 1, 3], [[5], [GARBAGE], [3]])
    """

    _last: ClassVar["Inputs | None"] = None

    def __init__(
        self, case: Case, previous: Case | None = None, known: Mapping[str, Any] | None = None
    ) -> None:
        self.case = case
        self.previous = previous
        if previous is not None:
            for name in ("topk", "split_size", "num_workers"):
                have, need = previous.options.value(name), case.options.value(name)
                require(have == need, f"previous.options.{name}", have, f"be {need}, as in the step after it")
        self._known: dict[str, Any] = dict(known or {})
        self._made: dict[Hashable, Any] = {}

    @classmethod
    def of(cls, case: Case, *, anew: bool = False) -> "Inputs":
        """Return the inputs of a case: those returned last if they are this case's, unless made ``anew``."""
        if anew or cls._last is None or cls._last.case is not case:
            cls._last = cls(case)
        return cls._last

    def __getitem__(self, name: str) -> Any:
        if name not in self._known:
            if name not in INPUTS:
                raise ValueError(f"input = {name!r}, must be one of {', '.join(sorted(INPUTS))}")
            self._known[name] = INPUTS[name](self)
        return self._known[name]

    def alike(self, case: Case) -> "Inputs":
        """Return the inputs of a case that has other strides, garbage and widths alone: the same numbers."""
        other = Inputs(case, self.previous)
        other._known, other._made = self._known, self._made
        return other

    def call(self, oracle: Callable[..., Any]) -> Any:
        """Return the answer of ``oracle``, whose parameters are filled by name; it is asked once."""
        return self.once(oracle, lambda: oracle(**{name: self[name] for name in _parameters(oracle)}))

    def once(self, what: Hashable, make: Callable[[], Any]) -> Any:
        """Return what ``make`` returns, which depends on the numbers alone; it is called once."""
        if what not in self._made:
            self._made[what] = make()
        return self._made[what]


@lru_cache(maxsize=256)
def _parameters(oracle: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(inspect.signature(oracle).parameters)


def _per_request(inputs: Inputs, values: list[Any], padding: Any) -> list[Any]:
    return values + [padding] * inputs.case.layout.num_padding_requests


def _context_lens(inputs: Inputs) -> list[int]:
    return _per_request(inputs, [request.context_len for request in inputs.case.batch.requests], 0)


def _query_lens(inputs: Inputs) -> list[int]:
    return _per_request(inputs, [request.query_len for request in inputs.case.batch.requests], 0)


def _seq_lens(inputs: Inputs) -> list[int]:
    return _per_request(inputs, [request.seq_len for request in inputs.case.batch.requests], 0)


def _chunk_context_lens(inputs: Inputs) -> list[int] | None:
    """Return the contexts if chunks are cut at positions, None if they are cut at rows."""
    return _context_lens(inputs) if inputs.case.options.chunks.absolute_chunks else None


def _is_prefill(inputs: Inputs) -> list[Any]:
    requests = inputs.case.batch.requests
    return _per_request(inputs, [request.phase == "prefill" for request in requests], GARBAGE)


def _layout(inputs: Inputs) -> SequenceLayout:
    """Return the sequence layout, of which several inputs are parts."""
    layout: SequenceLayout = inputs.call(sequence_layout)
    return layout


def _row_index(inputs: Inputs) -> list[Any]:
    return _per_request(inputs, table_rows(inputs.case), GARBAGE)


def _topk_indices(inputs: Inputs) -> list[list[Any]]:
    case, selection = inputs.case, inputs.case.options.selection
    lens = inputs["context_lens"], inputs["query_lens"]
    kv_lens = kv_lens_of(*lens, case.num_tokens_padded, selection.topk)
    how = selection.topk, selection.selection_order, selection.selection_seed
    return topk_indices(kv_lens, inputs["position_ids"], *how)


def _selected_positions(inputs: Inputs) -> list[list[Any]]:
    beyond, selection = None, inputs.case.options.selection
    if selection.select_beyond:
        table = inputs["block_table"]
        beyond = (len(table[0]) if table else 0) * inputs["block_size"] * inputs["world"]
    owners = inputs["token_to_request"]
    live = [row < inputs["num_tokens"] for row in range(len(owners))]
    rows, workspaces = inputs["topk_indices"], inputs["workspace_ids"]
    how = selection.selected_first, selection.selects_fewer, selection.selection_seed
    return selected_positions(rows, owners, live, workspaces, beyond, *how)


def _num_drafts(inputs: Inputs) -> list[Any]:
    case, drafts = inputs.case, inputs.case.options.drafts
    counts = [num_drafts_of(one, drafts.max_drafts, drafts.draft_seed) for one in case.batch.requests]
    return _per_request(inputs, counts, GARBAGE)


def _previous(inputs: Inputs) -> Case | None:
    """Return the step before, if the host knew its lengths."""
    previous = inputs.previous
    return previous if previous is not None and previous.layout.host_lens else None


def _previous_lens(name: str) -> Callable[[Inputs], list[int] | None]:
    def lens(inputs: Inputs) -> list[int] | None:
        previous = _previous(inputs)
        return None if previous is None else Inputs(previous)[name]

    return lens


def _on_host(name: str) -> Callable[[Inputs], list[int] | None]:
    return lambda inputs: inputs[name] if inputs.case.layout.host_lens else None


def _tokens_of(phase: str) -> Callable[[Inputs], int]:
    return lambda inputs: sum(r.query_len for r in inputs.case.batch.requests if r.phase == phase)


def _requests_of(phase: str) -> Callable[[Inputs], int]:
    return lambda inputs: sum(r.phase == phase for r in inputs.case.batch.requests)


def _option(name: str) -> Callable[[Inputs], Any]:
    return lambda inputs: inputs.case.options.value(name)


_OPTIONS = (
    "rank interleave compress_ratio window key_scope token_padding dummy_request topk split_size num_workers "
    "num_experts num_groups topk_group top_k renormalize power_of_two_scales max_drafts chunk_size "
    "ring_capacity num_heads page_order head_format"
).split()
INPUTS: dict[str, Callable[[Inputs], Any]] = {
    **{name: _option(name) for name in _OPTIONS},
    "context_lens": _context_lens,
    "query_lens": _query_lens,
    "seq_lens": _seq_lens,
    "chunk_context_lens": _chunk_context_lens,
    "max_sequence_chunks": lambda inputs: inputs.case.max_sequence_chunks,
    "is_prefill": _is_prefill,
    "row_index": _row_index,
    "block_table": lambda inputs: block_table(inputs.case),
    "cu_seqlens_q": lambda inputs: _layout(inputs).cu_seqlens_q,
    "cu_seqlens_k": lambda inputs: _layout(inputs).cu_seqlens_k,
    "token_to_request": lambda inputs: _layout(inputs).token_to_request,
    "position_ids": lambda inputs: inputs.call(position_ids).position_ids,
    "num_requests": lambda inputs: len(inputs.case.batch.requests),
    "num_requests_padded": lambda inputs: inputs.case.num_requests_padded,
    "num_tokens": lambda inputs: inputs.case.batch.num_tokens,
    "num_tokens_padded": lambda inputs: inputs.case.num_tokens_padded,
    "num_prefills": _requests_of("prefill"),
    "num_decodes": _requests_of("decode"),
    "num_prefill_tokens": _tokens_of("prefill"),
    "num_decode_tokens": _tokens_of("decode"),
    "num_slots": lambda inputs: inputs.case.num_slots,
    "slot_mapping": lambda inputs: inputs.call(slot_mapping).slot_mapping,
    "num_new_rows": lambda inputs: inputs.case.max_num_tokens,
    "num_cache_slots": lambda inputs: inputs.case.num_cache_blocks * inputs.case.batch.block_size,
    "num_cache_blocks": lambda inputs: inputs.case.num_cache_blocks,
    "key_units": lambda inputs: inputs.case.options.heads.key_units,
    "value_units": lambda inputs: inputs.case.options.heads.value_units,
    "units_per_group": lambda inputs: inputs.case.options.heads.group_items,
    "key_scale": lambda inputs: inputs.case.options.heads.key_scale,
    "value_scale": lambda inputs: inputs.case.options.heads.value_scale,
    "num_keys": lambda inputs: inputs.case.num_keys,
    "capacity": lambda inputs: inputs.case.capacity,
    "read_capacity": lambda inputs: inputs.case.read_capacity,
    "max_context_len": lambda inputs: inputs.case.max_context_len,
    "block_size": lambda inputs: inputs.case.batch.block_size,
    "kernel_block_size": lambda inputs: inputs.case.kernel_block_size,
    "tokens_per_entry": lambda inputs: inputs.case.tokens_per_entry,
    "num_page_columns": lambda inputs: inputs.case.num_page_columns,
    "num_page_indices": lambda inputs: inputs.case.num_page_indices,
    "world": lambda inputs: inputs.case.batch.world,
    "topk_indices": _topk_indices,
    "selected_positions": _selected_positions,
    "workspace_ids": lambda inputs: workspace_ids(inputs.case),
    "workspace_starts": lambda inputs: workspace_starts(inputs.case),
    "workspace_tokens": lambda inputs: inputs.case.workspace_tokens,
    "chunk_alignment": lambda inputs: inputs.call(chunk_alignment),
    "num_with_context": lambda inputs: inputs.case.num_with_context,
    "window_columns": lambda inputs: inputs.case.window_columns,
    "max_num_tokens": lambda inputs: inputs.case.max_num_tokens,
    "num_drafts": _num_drafts,
    "last_loc": lambda inputs: _per_request(inputs, last_locs(inputs.case), GARBAGE),
    "prefix_lens": _context_lens,
    "free_pages": lambda inputs: free_pages(inputs.case),
    "page_size": lambda inputs: inputs.case.batch.tokens_per_block,
    "logits": lambda inputs: logits(inputs.case),
    "bias": lambda inputs: bias(inputs.case),
    "scaling_factor": lambda inputs: inputs.case.options.router.scaling_thousandths / 1000,
    "host_lens": lambda inputs: inputs.case.layout.host_lens,
    "context_lens_cpu": _on_host("context_lens"),
    "query_lens_cpu": _on_host("query_lens"),
    "previous_context_lens": _previous_lens("context_lens"),
    "previous_query_lens": _previous_lens("query_lens"),
    "previous_num_tokens_padded": lambda inputs: inputs.previous.num_tokens_padded if inputs.previous else 0,
}
