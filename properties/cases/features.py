"""One row a feature: the fields it varies, how they are drawn, where small ones suffice, what shows it.

Draws, ``Domain``, the small domain, hidden features and the reducer are derived from these rows. The neutral
value of a field is its default.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from cumae.oracle import FLOAT_DTYPES, GARBAGE_KINDS, INDEX_DTYPES, LOGITS_KINDS, ROW_FORMATS, Case
from cumae.properties.cases.values import (
    Draw,
    bias_dtype,
    compress_ratio,
    context_slack,
    dummy_request,
    interleave,
    kernel_block_size,
    latent_dims,
    misses_blocks,
    padding_tokens,
    router_shape,
    row_index,
    topk,
    window,
)

Record = Literal["batch", "layout", "options"]
Small = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """A row. ``fields``: of ``record``, drawn together, as a tuple where there are several.

    ``name``: of the feature, which several rows may share. ``always``: whether it varies for every function,
    because none is told of it. ``draw``: returns the value or values. ``small``: the fields, of any record,
    of steps of the small domain. ``simpler``: values that the reducer tries together. ``shown_by``: inputs of
    the dialect cumae that show it, beside those of its name and of its fields. ``varies``: whether a case
    shows it, where its fields do not say so. ``needs``: fields that go with a promised value.
    """

    fields: tuple[str, ...]
    record: Record
    draw: Callable[[Draw], Any]
    name: str
    always: bool = False
    small: tuple[Small, ...] = ()
    simpler: tuple[tuple[Any, ...], ...] = ()
    shown_by: tuple[str, ...] = ()
    varies: Callable[[Case], bool] | None = None
    needs: Mapping[str, Any] | None = None


def _row(record: Record, names: str, draw: Callable[[Draw], Any], name: str = "", **more: Any) -> Feature:
    own = tuple(names.split())
    return Feature(fields=own, record=record, draw=draw, name=name or own[0], **more)


def _always(names: str, draw: Callable[[Draw], Any]) -> Feature:
    return _row("layout", names, draw, always=True)


def _unseen(case: Case) -> bool:
    """Return False: a function that is not told of the feature cannot see it."""
    return False


WORLDS = (1, 1, 2, 3, 4)
FEATURES: tuple[Feature, ...] = (
    _row(
        "batch",
        "world",
        lambda d: d.pick("world", WORLDS),
        small=({"world": 2, "rank": 1}, {"world": 2, "interleave": 2}),
        shown_by=("slot_mapping",),
    ),
    _row(
        "batch",
        "",
        lambda d: d.choices.chance(25),
        "missing_blocks",
        small=({"table_column_step": 2, "num_padding_tokens": 0, "num_padding_requests": 0},),
        shown_by=("block_table", "slot_mapping"),
        varies=misses_blocks,
    ),
    _always("num_padding_tokens", padding_tokens),
    _always("num_padding_requests", lambda d: d.choices.pick((0, 0, 1, 3)) if d.is_padded else 0),
    _row(
        "layout",
        "num_padding_slots",
        lambda d: d.pick("num_padding_slots", (0, 0, 1, 5)) if d.is_padded else 0,
        shown_by=("num_slots", "slot_mapping"),
    ),
    _row(
        "layout",
        "key_slack",
        lambda d: d.pick("key_slack", (0, 0, 1, 9, -1, -3)),
        small=({"key_slack": -1}, {"key_slack": 1}),
        shown_by=("capacity",),
    ),
    _row(
        "layout",
        "row_index",
        row_index,
        small=({"row_index": (1, 0), "num_padding_slots": 1}, {"row_index": (-1, 0)}),
        shown_by=("slot_mapping",),
    ),
    _always("num_spare_rows", lambda d: d.choices.pick((0, 0, 1, 2))),
    _always("num_spare_columns", lambda d: d.choices.pick((0, 1, 3))),
    _always("num_spare_blocks", lambda d: d.choices.pick((0, 1, 4))),
    _always("table_row_gap", lambda d: d.choices.pick((0, 1, 3)) if d.strided else 0),
    _always("table_column_step", lambda d: d.choices.pick((1, 1, 2)) if d.strided else 1),
    _always("cache_row_gap", lambda d: d.choices.pick((0, 1, 8)) if d.strided else 0),
    _always("key_row_gap", lambda d: d.choices.pick((0, 1, 8)) if d.strided else 0),
    _always("garbage", lambda d: d.choices.pick(GARBAGE_KINDS)),
    _always("index_dtype", lambda d: d.pick("index_dtype", INDEX_DTYPES)),
    _row(
        "layout",
        "context_slack",
        context_slack,
        small=({"context_slack": 3},),
        shown_by=("max_context_len",),
        varies=_unseen,
    ),
    _row(
        "layout",
        "num_spare_tokens",
        lambda d: d.pick("num_spare_tokens", (0, 0, 1, 5, 40)),
        shown_by=("max_num_tokens", "new_latents"),
        varies=_unseen,
    ),
    _row(
        "layout",
        "host_lens",
        lambda d: d.flag("host_lens", 15, odd=False),
        shown_by=("context_lens_cpu", "query_lens_cpu"),
    ),
    _row(
        "options",
        "row_format",
        lambda d: d.pick("row_format", ROW_FORMATS),
        shown_by=("cache", "new_latents", "new_rows"),
    ),
    _row("options", "kv_lora_rank qk_rope_head_dim", latent_dims, "row_format"),
    _row(
        "options",
        "rank",
        lambda d: d.integer("rank", 0, d.batch.world - 1),
        shown_by=("slot_mapping",),
    ),
    _row("options", "interleave", interleave, shown_by=("slot_mapping",)),
    _row("options", "kernel_block_size", kernel_block_size, small=({"kernel_block_size": 1},)),
    _row("options", "compress_ratio", compress_ratio, small=({"compress_ratio": 2},)),
    _row("options", "window", window, small=({"window": 2},)),
    _row(
        "options",
        "key_scope",
        lambda d: d.pick("key_scope", ("all", "prefill")),
        small=({"key_scope": "prefill"},),
        shown_by=("cu_seqlens_k",),
    ),
    _row(
        "options",
        "token_padding",
        lambda d: d.pick("token_padding", (-1, 0)),
        small=({"token_padding": 0},),
    ),
    _row("options", "dummy_request", dummy_request, small=({"dummy_request": True},)),
    _row(
        "options",
        "power_of_two_scales",
        lambda d: d.values["row_format"] == "fp8" and d.flag("power_of_two_scales", 50),
        small=({"row_format": "fp8"}, {"row_format": "fp8", "power_of_two_scales": True}),
        needs={"row_format": "fp8"},
    ),
    _row(
        "options",
        "topk",
        topk,
        small=({"topk": 3, "split_size": 2},),
        shown_by=("selected_positions", "topk_indices"),
    ),
    _row("options", "split_size", lambda d: d.pick("split_size", (1, 2, 3, 4, 64, 256))),
    _row(
        "options",
        "num_workers",
        lambda d: d.pick("num_workers", (1, 2, 3, 7, 132)),
        small=({"num_workers": 2},),
    ),
    _row(
        "options",
        "chunk_blocks",
        lambda d: d.pick("chunk_blocks", (1, 2, 3, 16)),
        "workspace",
        shown_by=("workspace_tokens",),
    ),
    _row("options", "workspace_slack", lambda d: d.pick("workspace_slack", (0, 0, 1, 7, 100)), "workspace"),
    _row(
        "options",
        "scaling_thousandths",
        lambda d: d.pick("scaling_thousandths", (1000, 2500, 2827, 1, 16000)),
        "scaling_factor",
        small=({"scaling_thousandths": 2500},),
    ),
    _row(
        "options",
        "renormalize",
        lambda d: d.flag("renormalize", 25, odd=False),
        small=({"renormalize": False},),
    ),
    _row(
        "options",
        "num_experts num_groups topk_group top_k",
        router_shape,
        "router",
        small=(
            {"logits_kind": "ties"},
            {"logits_kind": "negative", "num_groups": 4, "topk_group": 2, "top_k": 3},
            {"logits_kind": "nan_and_inf", "logits_seed": 11, "top_k": 3},
        ),
        simpler=(
            (2, 1, 1, 1),
            (3, 1, 1, 2),
            (4, 2, 1, 1),
            (4, 2, 1, 2),
            (6, 3, 2, 2),
            (8, 2, 1, 2),
            (8, 4, 2, 2),
        ),
        shown_by=("bias", "logits"),
    ),
    _row("options", "logits_dtype", lambda d: d.pick("logits_dtype", FLOAT_DTYPES), "router"),
    _row("options", "bias_dtype", bias_dtype, "router"),
    _row("options", "logits_kind", lambda d: d.pick("logits_kind", LOGITS_KINDS), "router"),
    _row("options", "logits_seed", lambda d: d.integer("logits_seed", 0, 999), "router"),
    _row(
        "options",
        "prefill_workspace",
        lambda d: d.flag("prefill_workspace", 40),
        small=(
            {"prefill_workspace": True, "topk": 3},
            {"prefill_workspace": True, "rank": 1, "world": 2},
        ),
        shown_by=("workspace_ids", "workspace_starts"),
    ),
    _row(
        "options",
        "select_beyond",
        lambda d: d.flag("select_beyond", 70),
        small=({"select_beyond": True, "topk": 3},),
        shown_by=("selected_positions",),
    ),
)
NAMES = frozenset(row.name for row in FEATURES if not row.always)
"""The features that an operation may list."""
PROMISED = {
    name: row
    for row in FEATURES
    for name in row.fields
    if len(row.fields) == 1 and (not row.always or name == "index_dtype") and name not in ("row_index",)
}
"""The fields of which a domain may promise values."""


def fields_of(case: Case) -> dict[str, Any]:
    """Return the value of every field that a feature varies."""
    layout, options, found = case.layout, case.options, {"world": case.batch.world}
    for row in FEATURES:
        for name in row.fields:
            if row.record == "layout":
                found[name] = getattr(layout, name)
            elif row.record == "options":
                found[name] = options.value(name)
    return found


def varied(case: Case, settled: Callable[[str], Any]) -> set[str]:
    """Return the features in which a case differs from what their fields settle at."""
    values = fields_of(case)
    found = set()
    for row in FEATURES:
        own = any(values[name] != settled(name) for name in row.fields)
        if not row.always and (row.varies(case) if row.varies else own):
            found.add(row.name)
    return found


def draw_record(d: Draw, record: Record, features: Collection[str]) -> dict[str, Any]:
    """Return the fields of a record; of features that are not listed, settled values."""
    for row in FEATURES:
        if row.record != record:
            continue
        if row.always or row.name in features:
            drawn = row.draw(d)
            d.values |= zip(row.fields, drawn if len(row.fields) > 1 else (drawn,), strict=True)
        else:
            d.values |= {name: d.domain.settled(name) for name in row.fields}
    return d.values
