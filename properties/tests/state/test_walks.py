"""The engine model says only valid things and reaches what engines do."""

from collections import Counter
from dataclasses import replace
from itertools import islice, pairwise
from math import lcm
from typing import Any

import pytest

from cumae.oracle import Case, Inputs, Trace
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.shapes import shapes_of
from cumae.properties.dialects import CUMAE, Ints
from cumae.properties.operations import OPERATIONS
from cumae.properties.running.device import prepare
from cumae.properties.search.budget import Budget
from cumae.properties.search.loop import search
from cumae.properties.search.rounds import SEED_ROUNDS, WALKS
from cumae.properties.state.plans import DECODES, FEW_ROWS, ROUND, WIDE
from cumae.properties.state.walks import trace_of, walk
from cumae.properties.tests.given.walks import bound, everything, steps_of

DEVICE = prepare("auto")
KERNELS = [(operation.name, target) for operation in OPERATIONS.values() for target in operation.kernels]


def traces_of(target: str, operation: str, count: int) -> list[list[Case]]:
    """Return the first traces of a function."""
    return [list(trace_of(bound(operation, target), number)) for number in range(count)]


@pytest.mark.parametrize("part", range(3))
def test_every_walk_is_a_trace_whose_buffers_keep_their_shapes(part: int) -> None:
    for number in range(10 * part, 10 * part + 10):
        trace = Trace(tuple(steps_of(number, 40)))
        shapes: dict[str, set[Any]] = {}
        for step in trace.steps:
            inputs = Inputs(step)
            for name in ("context_lens", "block_table", "cu_seqlens_q"):
                held = CUMAE.inputs[name].hold(inputs)
                assert isinstance(held, Ints)
                shapes.setdefault(name, set()).add((held.shape, held.strides))
            capacity = inputs["capacity"] if step.options.keys.window == 0 else None
            # A walk keeps the rows in the scope of keys; no operation reads all of them in a narrower scope.
            rows = inputs["read_capacity"] if step.options.keys.key_scope == "all" else None
            shapes.setdefault("numbers", set()).add((rows, inputs["max_context_len"]))
            shapes.setdefault("capacity", set()).add(capacity)
        assert all(len(seen) == 1 for seen in shapes.values()), shapes


def test_walks_reach_what_engines_do() -> None:
    seen: Counter[str] = Counter()
    for number in range(80):
        for step in steps_of(number, 30):
            seen.update(shapes_of(step))
    for shape in (
        "prefill, later chunk",
        "prefill chunk of one token",
        "decode of several tokens",
        "prefix hit, shared blocks",
        "partly filled block shared",
        "empty request in the middle",
        "idle request with context",
        "rows scattered",
        "no tokens, padded",
        "dummy request",
        "context parallel",
        "lengths unknown to the host",
        "missing blocks",
    ):
        assert seen[shape] >= 3, (shape, seen)


def test_a_class_gets_long_wide_and_production_traces_in_the_first_round() -> None:
    traces = traces_of("cumae.gpu_impl:MetadataCache", "metadata_cache", len(ROUND))
    assert max(map(len, traces)) > 256
    assert any(len(step.batch.requests) >= 64 for steps in traces for step in steps)
    topk = {steps[0].options.selection.topk for steps in traces}
    assert 512 in topk and max(topk) >= 1024 and min(topk) < 64
    assert max(r.context_len for steps in traces for step in steps for r in step.batch.requests) >= 2048
    assert min(map(len, traces)) <= 3


def test_steps_of_a_class_shrink_by_thousands_of_tokens_and_by_a_thousand_requests() -> None:
    traces = traces_of("cumae.gpu_impl:PersistentBuffers", "persistent_buffers", 5 * len(ROUND))
    pairs = [pair for steps in traces for pair in pairwise(steps)]
    assert max(a.num_tokens_padded - b.num_tokens_padded for a, b in pairs) > 4000
    live = [[sum(r.seq_len > 0 for r in step.batch.requests) for step in pair] for pair in pairs]
    assert max(a - b for a, b in live) > 700


def test_every_seed_begins_with_the_plans_of_the_first_round() -> None:
    repeats = lcm(*map(len, ROUND))
    assert SEED_ROUNDS % repeats == 0
    assert len(ROUND) == 3 * WALKS


def test_a_function_without_state_gets_short_traces() -> None:
    traces = traces_of("cumae.gpu_impl:write_slot_mapping", "slot_mapping", 2 * len(ROUND))
    assert max(map(len, traces)) <= 12
    assert max(len(step.batch.requests) for steps in traces for step in steps) > 32


def test_a_trace_of_a_number_is_the_same_again_and_inside_the_domain() -> None:
    binding = bound("metadata_cache", "cumae.gpu_impl:MetadataCache")
    for number in range(len(ROUND)):
        steps = list(trace_of(binding, number))
        assert steps == list(trace_of(binding, number))
        assert {binding.why_not(step) for step in steps} == {None}
        assert Trace(tuple(steps)).steps == tuple(steps)


@pytest.mark.parametrize(
    "more", [{}, {"empty_requests": False, "min_tokens": 1}, {"phases": ("prefill",)}], ids=repr
)
def test_an_engine_that_caches_whole_blocks_stays_in_its_domain(more: dict[str, Any]) -> None:
    binding = replace(everything(), domain=Domain(whole_prefixes=True, **more))
    steps = [step for number in range(9) for step in islice(walk(binding, number), 40)]
    beyond = Counter(binding.domain.why_not(step) for step in steps)
    assert beyond[None] > 0.9 * len(steps), beyond
    later = [r for step in steps for r in step.batch.requests if r.phase == "prefill" and r.context_len]
    assert len(later) > 40


def test_steps_of_a_long_trace_are_small() -> None:
    for number in range(4):
        steps = list(islice(walk(everything(), number, FEW_ROWS), 270))
        assert max(step.num_tokens_padded for step in steps) <= FEW_ROWS.sizes.budget
        assert len({tuple(r.query_len for r in step.batch.requests) for step in steps}) > 5


def test_the_whole_engine_idles_for_many_steps() -> None:
    longest = 0
    for number in range(6):
        idle = 0
        for step in islice(walk(everything(), number, FEW_ROWS), 270):
            idle = 0 if step.batch.num_tokens else idle + 1
            longest = max(longest, idle)
    assert longest > 20


def test_a_wide_engine_grows_through_every_power_of_two() -> None:
    for number in range(4):
        sizes = [step.batch.num_tokens for step in islice(walk(everything(), number, WIDE), 15)]
        most = [max(sizes[: k + 1]) for k in range(len(sizes))]
        assert most[0] <= 1 and most[-1] > 64
        assert all(later <= 2 * max(before, 1) for before, later in pairwise(most))


def test_a_large_step_stands_between_two_equal_ones() -> None:
    steps = [step for number in range(6) for step in islice(walk(everything(), number, WIDE), 40)]
    lens = [[r.query_len for r in step.batch.requests] for step in steps]
    assert any(a == c and sum(b) > sum(a) > 0 for a, b, c in zip(lens, lens[1:], lens[2:], strict=False))


def test_padding_changes_while_the_lengths_of_a_step_stay() -> None:
    steps = [step for number in range(64) for step in islice(walk(everything(), number), 40)]
    assert any(
        before.batch.num_tokens == after.batch.num_tokens
        and 0 < before.layout.num_padding_tokens != after.layout.num_padding_tokens > 0
        for before, after in pairwise(steps)
    )


def test_requests_arrive_with_contexts_about_as_long_as_the_selection() -> None:
    contexts = {
        r.context_len - step.options.selection.topk
        for number in range(8)
        for step in islice(walk(everything(), number, DECODES), 10)
        for r in step.batch.requests
    }
    assert contexts & {-2, -1} and contexts & {0, 1}


def test_a_rejected_draft_is_computed_again() -> None:
    fell_back = 0
    for number in range(20):
        steps = steps_of(number, 30)
        for before, after in pairwise(steps):
            for request in before.batch.requests:
                if request.phase == "decode" and request.query_len > 1:
                    ends = {
                        r.context_len
                        for r in after.batch.requests
                        if r.block_ids[:1] == request.block_ids[:1]
                    }
                    fell_back += any(request.context_len < end < request.seq_len for end in ends)
    assert fell_back >= 5


def test_rejected_drafts_give_their_page_back_in_some_engines_alone() -> None:
    gave_back: set[int] = set()
    for number in range(40):
        for before, after in pairwise(steps_of(number, 30)):
            held = {r.block_ids[0]: r for r in after.batch.requests if r.block_ids}
            for request in before.batch.requests:
                now = held.get(request.block_ids[0]) if request.block_ids else None
                if request.phase == "decode" and request.query_len > 1 and now is not None:
                    is_same = request.context_len < now.context_len < request.seq_len
                    if is_same and len(now.block_ids) < len(request.block_ids):
                        gave_back.add(number)
    assert 3 <= len(gave_back) < 30


@pytest.mark.parametrize(
    ("operation", "target"), KERNELS, ids=[target.rpartition(":")[2] for _, target in KERNELS]
)
def test_every_kernel_goes_through_traces(operation: str, target: str) -> None:
    binding = bound(operation, target)
    verdict = search(binding, DEVICE, Budget(examples=10, seed=4), checks=["forgets_history"])
    assert verdict.ok, verdict.failure
    assert verdict.cases >= (300 if binding.keeps_state else 30)
