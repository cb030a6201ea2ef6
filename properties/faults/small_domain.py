"""All cases of a domain small enough to try every one: where a mutant and its original can be compared."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from cumae.oracle import Batch, Case, Layout, Options, Phase, Request, Trace, leveled
from cumae.properties.operations.binding import Binding

MOST_LEN, BLOCK_SIZE = 2, 2
CASES = (
    "all steps of at most 2 requests with context_len and query_len at most 2, prefills and decodes where"
    " they differ, behind them padding; without it, and under each option, those with lengths 0 and 2"
)
PAIRS = "all pairs of steps of at most 1 request with context_len and query_len 0, 1 or 3"
# What tells a function of the cumae dialect whether a request is a prefill.
_PHASES = {"is_prefill", "key_scope", "num_decode_tokens", "num_prefill_tokens", "prefill_workspace"}
_PADDED: dict[str, Any] = {"num_padding_tokens": 1, "num_padding_requests": 1}
# The first with all lengths, then what is varied, one at a time: the feature it needs, and how layout,
# options and world differ.
_VARIED: tuple[tuple[str, dict[str, Any], dict[str, Any], int], ...] = (
    ("", _PADDED, {}, 1),
    ("", {}, {}, 1),
    ("key_scope", _PADDED, {"key_scope": "prefill"}, 1),
    ("compress_ratio", _PADDED, {"compress_ratio": 2}, 1),
    ("window", _PADDED, {"window": 2}, 1),
    ("token_padding", _PADDED, {"token_padding": 0}, 1),
    ("dummy_request", _PADDED, {"dummy_request": True}, 1),
    ("row_index", {**_PADDED, "row_index": (1, 0), "num_padding_slots": 1}, {}, 1),
    ("row_index", {**_PADDED, "row_index": (-1, 0)}, {}, 1),
    ("key_slack", {**_PADDED, "key_slack": -1}, {}, 1),
    ("key_slack", {**_PADDED, "key_slack": 1}, {}, 1),
    ("kernel_block_size", _PADDED, {"kernel_block_size": 1}, 1),
    ("world", _PADDED, {"rank": 1}, 2),
    ("world", _PADDED, {"interleave": 2}, 2),
    ("topk", _PADDED, {"topk": 3, "split_size": 2}, 1),
    ("num_workers", _PADDED, {"num_workers": 2}, 1),
    ("context_slack", {**_PADDED, "context_slack": 3}, {}, 1),
    ("router", _PADDED, {"logits_kind": "ties"}, 1),
    ("router", _PADDED, {"logits_kind": "negative", "num_groups": 4, "topk_group": 2, "top_k": 3}, 1),
    ("router", _PADDED, {"logits_kind": "nan_and_inf", "logits_seed": 11, "top_k": 3}, 1),
    ("scaling_factor", _PADDED, {"scaling_thousandths": 2500}, 1),
    ("renormalize", _PADDED, {"renormalize": False}, 1),
    ("prefill_workspace", _PADDED, {"prefill_workspace": True, "topk": 3}, 1),
    ("prefill_workspace", _PADDED, {"prefill_workspace": True, "rank": 1}, 2),
    ("power_of_two_scales", _PADDED, {"row_format": "fp8"}, 1),
    ("power_of_two_scales", _PADDED, {"row_format": "fp8", "power_of_two_scales": True}, 1),
    ("missing_blocks", {"table_column_step": 2}, {}, 1),
)


def small_cases(binding: Binding) -> list[Case]:
    """Return every case of the domain that a function promises and can see."""
    cases = []
    reserved = binding.domain.reserved_blocks
    both = binding.dialect.name != "cumae" or bool(_PHASES & {*binding.inputs, *binding.features})
    for number, (feature, layout, options, world) in enumerate(_VARIED):
        if feature and feature not in binding.features:
            continue
        for requests in _steps(2, (0, MOST_LEN) if number else range(MOST_LEN + 1), both=both):
            given = _with_blocks(requests, world, reserved, missing=feature == "missing_blocks")
            batch = Batch(given, BLOCK_SIZE, world)
            case = Case(batch, _layout(layout, len(requests)), _options(binding, options))
            if binding.why_not(case) is None:
                cases.append(case)
    return cases


def small_traces(binding: Binding) -> list[Trace]:
    """Return every pair of steps, in buffers one row longer than the longest step."""
    traces = []
    reserved = binding.domain.reserved_blocks
    options = _options(binding, {"num_workers": 2} if "num_workers" in binding.features else {})
    small = _steps(1, (0, 1, 3), both=True)
    steps = [Batch(_with_blocks(requests, 1, reserved), BLOCK_SIZE) for requests in small]
    for first, second in product(steps, repeat=2):
        trace = leveled([Case(batch, Layout(), options) for batch in (first, second)], spare=1)
        if all(binding.why_not(case) is None for case in trace.steps):
            traces.append(trace)
    return traces


def _steps(most: int, lens: Sequence[int], *, both: bool) -> Iterator[tuple[Request, ...]]:
    """Yield every tuple of at most so many requests of these lengths, in ``both`` phases, without blocks."""
    phases: tuple[Phase, ...] = ("prefill", "decode") if both else ("prefill",)
    kinds = [(c, q, p) for c, q, p in product(lens, lens, phases) if p == "prefill" or (c and q)]
    for count in range(most + 1):
        for chosen in product(kinds, repeat=count):
            yield tuple(Request(c, q, tuple(range(c + q)), phase) for c, q, phase in chosen)


def _with_blocks(
    requests: tuple[Request, ...], world: int, reserved: int, *, missing: bool = False
) -> tuple[Request, ...]:
    """Return the requests with blocks of their own, in falling order, the first one missing if asked."""
    given = []
    for b, request in enumerate(requests):
        count = -(-request.seq_len // (BLOCK_SIZE * world))
        ids = [reserved + 1 + 2 * (3 - j) + b for j in range(count)]
        if missing and ids:
            ids[0] = -1
        given.append(replace(request, block_ids=tuple(ids)))
    return tuple(given)


def _layout(changed: dict[str, Any], num_requests: int) -> Layout:
    rows = changed.get("row_index")
    return Layout(**{**changed, "row_index": rows[2 - num_requests :] if rows and num_requests else None})


def _options(binding: Binding, changed: dict[str, Any]) -> Options:
    plain = binding.domain.latent_dims is None and changed.get("row_format") != "fp8"
    small = {"kv_lora_rank": 2, "qk_rope_head_dim": 1} if plain and "row_format" in binding.features else {}
    return Options(**{**small, **changed})
