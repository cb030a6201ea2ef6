"""The engine model says only valid things and reaches what engines do."""

from collections import Counter
from dataclasses import replace
from itertools import islice, pairwise
from typing import Any

import pytest

from cumae.oracle import Case, Inputs, Trace
from cumae.properties.cases.features import NAMES
from cumae.properties.cases.shapes import shapes_of
from cumae.properties.dialects import CUMAE, Ints
from cumae.properties.operations import OPERATIONS
from cumae.properties.operations.binding import Binding, binding_of
from cumae.properties.operations.targets import load_function
from cumae.properties.running.device import prepare
from cumae.properties.search.budget import Budget
from cumae.properties.search.loop import search
from cumae.properties.state.walks import walk

DEVICE = prepare("auto")
KERNELS = [(operation.name, target) for operation in OPERATIONS.values() for target in operation.kernels]


def bound(operation: str, target: str, dialect: str = "cumae") -> Binding:
    return binding_of(load_function(target), operation, dialect)


def everything() -> Binding:
    """A binding that shows every feature, so that the engine varies all of them."""
    return replace(bound("slot_mapping", "cumae.gpu_impl:write_slot_mapping"), features=NAMES)


def steps_of(number: int, count: int, **more: Any) -> list[Case]:
    return list(islice(walk(everything(), number, **more), count))


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
            shapes.setdefault("numbers", set()).add((inputs["capacity"], inputs["max_context_len"]))
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
    ):
        assert seen[shape] >= 3, (shape, seen)


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


@pytest.mark.parametrize(
    ("operation", "target"), KERNELS, ids=[target.rpartition(":")[2] for _, target in KERNELS]
)
def test_every_kernel_goes_through_traces(operation: str, target: str) -> None:
    binding = bound(operation, target)
    verdict = search(binding, DEVICE, Budget(examples=20, seed=4), checks=["forgets_history"])
    assert verdict.ok, verdict.failure
    assert verdict.cases >= 40
