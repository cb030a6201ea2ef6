"""The small domain: few enough cases to compare a mutant and its original on all of them."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from cumae.oracle import Batch, Case, Layout, Options, Phase, Request, Trace, leveled
from cumae.oracle.model.options import GROUP_OF
from cumae.properties.cases.features import FEATURES
from cumae.properties.operations.binding import Binding

MOST_LEN, BLOCK_SIZE = 2, 2
CASES = (
    "all steps of at most 2 requests with context_len and query_len at most 2, prefills and decodes where"
    " they differ, behind them padding; without it, and under each option, those with lengths 0 and 2, with"
    " neutral options also of 3 requests"
)
PAIRS = "all pairs of steps of at most 1 request with context_len and query_len 0, 1 or 3"
# Inputs of the cumae dialect that show whether a request is a prefill.
_COUNTS = {"num_decodes", "num_prefills", "num_decode_tokens", "num_prefill_tokens"}
_PHASES = {"is_prefill", "key_scope", "prefill_workspace", *_COUNTS}
_PADDED: dict[str, Any] = {"num_padding_tokens": 1, "num_padding_requests": 1}
NEUTRAL: tuple[dict[str, Any], ...] = (_PADDED, {})


def small_cases(binding: Binding) -> list[Case]:
    """Return every case of the domain that a function promises and can distinguish."""
    cases = []
    reserved = binding.domain.reserved_blocks
    both = binding.dialect.name != "cumae" or bool(_PHASES & {*binding.inputs, *binding.features})
    for number, (feature, fields) in enumerate(_varied(binding.features)):
        few, ends = (0, MOST_LEN) if number else range(MOST_LEN + 1), (0, MOST_LEN)
        # With tiles cut to 2, three requests are more than a tile.
        more = _steps(3, ends, both=both, least=3) if number < len(NEUTRAL) else ()
        for requests in (*_steps(2, few, both=both), *more):
            world = fields.get("world", 1)
            given = _with_blocks(requests, world, reserved, missing=feature == "missing_blocks")
            case = _case(binding, Batch(given, BLOCK_SIZE, world), fields)
            if binding.why_not(case) is None:
                cases.append(case)
    return cases


def _varied(features: Collection[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield a feature and changed fields, one feature at a time; only the first pair gets all lengths."""
    yield from (("", fields) for fields in NEUTRAL)
    for row in FEATURES:
        if row.name in features:
            yield from ((row.name, {**_PADDED, **small}) for small in row.small)


def small_traces(binding: Binding) -> list[Trace]:
    """Return every pair of steps, in buffers one row longer than the longest step."""
    traces = []
    reserved = binding.domain.reserved_blocks
    changed = {"num_workers": 2} if "num_workers" in binding.features else {}
    small = _steps(1, (0, 1, 3), both=True)
    steps = [Batch(_with_blocks(requests, 1, reserved), BLOCK_SIZE) for requests in small]
    for first, second in product(steps, repeat=2):
        trace = leveled([_case(binding, batch, changed) for batch in (first, second)], spare=1)
        if all(binding.why_not(case) is None for case in trace.steps):
            traces.append(trace)
    return traces


def _steps(most: int, lens: Sequence[int], *, both: bool, least: int = 0) -> Iterator[tuple[Request, ...]]:
    """Yield every tuple of so many requests of these lengths, in ``both`` phases, without blocks."""
    phases: tuple[Phase, ...] = ("prefill", "decode") if both else ("prefill",)
    kinds = [(c, q, p) for c, q, p in product(lens, lens, phases) if p == "prefill" or (c and q)]
    for count in range(least, most + 1):
        for chosen in product(kinds, repeat=count):
            yield tuple(Request(c, q, tuple(range(c + q)), phase) for c, q, phase in chosen)


def _with_blocks(
    requests: tuple[Request, ...], world: int, reserved: int, *, missing: bool = False
) -> tuple[Request, ...]:
    """Return the requests with their own blocks, ids falling; ``missing``: without the first block."""
    given, every = [], max(2, len(requests))
    for b, request in enumerate(requests):
        count = -(-request.seq_len // (BLOCK_SIZE * world))
        ids = [reserved + 1 + every * (3 - j) + b for j in range(count)]
        if missing and ids:
            ids[0] = -1
        given.append(replace(request, block_ids=tuple(ids)))
    return tuple(given)


def _case(binding: Binding, batch: Batch, changed: Mapping[str, Any]) -> Case:
    """Return the case of a batch with ``changed`` fields; latent rows are small."""
    fields = {name: value for name, value in changed.items() if name != "world"}
    rows, count = fields.pop("row_index", None), len(batch.requests)
    layout = {name: fields.pop(name) for name in tuple(fields) if name not in GROUP_OF}
    copied = "row_format" in binding.features and fields.get("row_format") != "fp8"
    if copied and binding.domain.latent_dims is None:
        fields = {"kv_lora_rank": 2, "qk_rope_head_dim": 1, **fields}
    settled = {name: binding.domain.settled(name) for name in binding.domain.values if name in GROUP_OF}
    return Case(
        batch,
        Layout(**layout, row_index=rows[2 - count :] if rows and count else None),
        Options.of(**{**settled, **fields}),
    )
