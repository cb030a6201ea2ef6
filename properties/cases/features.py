"""One row per feature: its fields, how they are drawn, their small values, and the inputs that show it.

Draws, ``Domain``, the small domain, hidden features and the reducer are derived from these rows. The neutral
value of a field is its default.
"""

from cumae.oracle import ROW_FORMATS
from cumae.properties.cases.feature import BOTH, Feature, always, row
from cumae.properties.cases.head_features import HEADS
from cumae.properties.cases.layout_features import LAYOUT
from cumae.properties.cases.router_features import ROUTER
from cumae.properties.cases.selection_features import SELECTIONS
from cumae.properties.cases.values import (
    CHUNKS,
    MOST_DRAFTS,
    RATIOS,
    RINGS,
    TOPKS,
    WINDOWS,
    compress_ratio,
    dummy_request,
    interleave,
    kernel_block_size,
    latent_dims,
    min_window_columns,
    misses_blocks,
    padding_requests,
    padding_tokens,
    ring_capacity,
    splits_groups,
    topk,
    window,
    workspace_slack,
)

WORLDS = (1, 1, 1, 2, 3, 4, 6, 8, 16, 32)
FEATURES: tuple[Feature, ...] = (
    row(
        "batch",
        "world",
        lambda d: d.pick("world", WORLDS),
        small=({"world": 2, "rank": 1}, {"world": 2, "interleave": 2}),
        engines=(1, 2, 4, 8, 16),
        shown_by=("slot_mapping", "tokens_per_entry"),
    ),
    row(
        "batch",
        "",
        lambda d: d.choices.chance(25),
        "missing_blocks",
        small=({"table_column_step": 2, "num_padding_tokens": 0, "num_padding_requests": 0},),
        shown_by=("block_table", "slot_mapping"),
        varies=misses_blocks,
    ),
    row(
        "batch",
        "",
        lambda d: False,
        "split_groups",
        shown_by=("compress_ratio",),
        varies=splits_groups,
    ),
    always("num_padding_tokens", padding_tokens),
    always("num_padding_requests", padding_requests),
    *LAYOUT,
    row(
        "options",
        "row_format",
        lambda d: d.pick("row_format", ROW_FORMATS),
        engines=ROW_FORMATS,
        shown_by=("cache", "new_latents", "new_rows"),
    ),
    row("options", "kv_lora_rank qk_rope_head_dim", latent_dims, "row_format"),
    row("options", "odd_rows", lambda d: d.flag("odd_rows", 30), "row_format", small=({"odd_rows": True},)),
    *HEADS,
    row(
        "options",
        "rank",
        lambda d: d.integer("rank", 0, d.batch.world - 1),
        shown_by=("slot_mapping",),
    ),
    row("options", "interleave", interleave, shown_by=("slot_mapping",), engines=(1, 4, 16, 64)),
    row(
        "options",
        "kernel_block_size",
        kernel_block_size,
        shown_by=("tokens_per_entry",),
        small=({"kernel_block_size": 1},),
        engines=(1, 16, 32, 64, 128),
    ),
    row(
        "options",
        "compress_ratio",
        compress_ratio,
        small=({"compress_ratio": 2}, {"compress_ratio": 2, "world": 2}),
        engines=RATIOS,
    ),
    row(
        "options",
        "window",
        window,
        small=({"window": 2}, {"window": 2, "world": 2, "rank": 1}),
        engines=WINDOWS,
    ),
    row(
        "options",
        "min_window_columns",
        min_window_columns,
        small=({"min_window_columns": 1, "window": 2}, {"min_window_columns": 3, "window": 2}),
        engines=(1, 64, 128, 192),
        shown_by=("window_columns",),
    ),
    row(
        "options",
        "ring_capacity",
        ring_capacity,
        small=({"ring_capacity": 1}, {"ring_capacity": 2}),
        engines=RINGS,
    ),
    row(
        "options",
        "key_scope",
        lambda d: d.pick("key_scope", ("all", "prefill")),
        engines=("all", "prefill"),
        small=({"key_scope": "prefill"},),
        shown_by=("cu_seqlens_k",),
    ),
    row(
        "options",
        "token_padding",
        lambda d: d.pick("token_padding", (-1, 0)),
        engines=(-1, 0),
        small=({"token_padding": 0},),
    ),
    row("options", "dummy_request", dummy_request, small=({"dummy_request": True},), engines=BOTH),
    row(
        "options",
        "power_of_two_scales",
        lambda d: d.values["row_format"] == "fp8" and d.flag("power_of_two_scales", 50),
        small=({"row_format": "fp8"}, {"row_format": "fp8", "power_of_two_scales": True}),
        needs={"row_format": "fp8"},
        engines=BOTH,
    ),
    row(
        "options",
        "topk",
        topk,
        small=({"topk": 3, "split_size": 2},),
        engines=TOPKS,
        shown_by=("selected_positions", "topk_indices"),
    ),
    row(
        "options",
        "split_size",
        lambda d: d.pick("split_size", (1, 2, 3, 4, 6, 7, 41, 64, 192, 256, 1024)),
        engines=(1, 64, 128, 256, 512, 1024),
    ),
    row(
        "options",
        "num_workers",
        lambda d: d.pick("num_workers", (1, 2, 3, 7, 12, 78, 132, 304)),
        engines=(1, 78, 108, 132, 148, 160, 304),
        small=({"num_workers": 2},),
    ),
    row(
        "options",
        "chunk_blocks",
        lambda d: d.pick("chunk_blocks", (1, 1, 1, 2, 3, 16)),
        "workspace",
        engines=(1, 2, 16),
        shown_by=("workspace_tokens",),
    ),
    row(
        "options",
        "workspace_slack",
        workspace_slack,
        "workspace",
        engines=(0, 100, 300),
    ),
    row(
        "options",
        "shared_workspace",
        lambda d: d.flag("shared_workspace", 50),
        engines=BOTH,
        small=({"shared_workspace": True},),
        shown_by=("workspace_tokens",),
    ),
    row(
        "options",
        "chunk_size",
        lambda d: d.pick("chunk_size", (2, 1, 3, 4, 5, 6, 7, 8, 16, 41, 64, 100)),
        engines=CHUNKS,
        small=({"chunk_size": 1}, {"chunk_size": 3}),
    ),
    row(
        "options",
        "absolute_chunks",
        lambda d: d.flag("absolute_chunks", 50),
        engines=BOTH,
        small=({"absolute_chunks": True}, {"absolute_chunks": True, "chunk_size": 3}),
        shown_by=("chunk_context_lens",),
    ),
    *ROUTER,
    *SELECTIONS,
    row(
        "options",
        "max_drafts",
        lambda d: d.pick("max_drafts", (3, 1, 2, 8, *MOST_DRAFTS)),
        engines=MOST_DRAFTS,
        small=({"max_drafts": 1}, {"max_drafts": 2}),
        shown_by=("num_drafts",),
    ),
    row("options", "draft_seed", lambda d: d.pick("draft_seed", (0, 0, 0, 1, 2, 3)), "max_drafts"),
)
NAMES = frozenset(row.name for row in FEATURES if not row.always)
"""The features an operation may list."""
PROMISED = {
    name: row
    for row in FEATURES
    for name in row.fields
    if len(row.fields) == 1 and (not row.always or name == "index_dtype") and name not in ("row_index",)
}
"""The fields whose values a domain may promise."""


def feature_of(name: str) -> str:
    """Return the feature of a field that a domain may promise; any other name is its own."""
    return PROMISED[name].name if name in PROMISED else name
