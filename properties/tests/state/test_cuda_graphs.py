"""Checks that capture a call in a CUDA graph: what is not the function's doing accuses nobody."""

import gc
import weakref
from collections.abc import Iterator
from dataclasses import replace

import pytest

from cumae.gpu_impl import MetadataCache, write_chunked_context, write_position_ids
from cumae.oracle import Batch, Case, Layout, Request, Trace
from cumae.properties.operations.binding import binding_of
from cumae.properties.running.bench import POISON, Bench
from cumae.properties.running.cuda_graphs import captured_graph
from cumae.properties.search.traces import TraceRun
from cumae.properties.tests.given.steps import DEVICE

pytestmark = pytest.mark.skipif(DEVICE == "cpu", reason="device='cuda': no GPU to run on")
FIRST, SECOND = Request(1, 0, (3,), "prefill"), Request(0, 0, (), "prefill")


@pytest.fixture
def collects_on_demand() -> Iterator[None]:
    thresholds = gc.get_threshold()
    gc.set_threshold(0)
    yield
    gc.set_threshold(*thresholds)


def test_lengths_of_another_dtype_are_another_launch() -> None:
    step = Case(Batch((FIRST, SECOND), 1))
    wide = Case(Batch((SECOND, FIRST), 1), Layout(index_dtype="int64"))
    run = TraceRun(binding_of(write_chunked_context, "chunked_context"), "cuda", "replays_in_graph")
    assert run.all(Trace((step, wide, replace(wide, batch=step.batch)))) is None
    assert run.num_captured == 2


def test_tensors_at_other_addresses_are_another_launch() -> None:
    padding = Case(Batch((), 1), Layout(num_padding_tokens=1, num_padding_requests=1))
    moved = Case(Batch((Request(0, 1, (3,)),), 1), Layout(storage_offset=1))
    run = TraceRun(binding_of(MetadataCache, "metadata_cache"), "cuda", "replays_in_graph")
    assert run.all(Trace((padding, moved, padding))) is None
    assert run.num_captured == 2


class Garbage:
    """Holds something, and itself: only the collector frees it."""

    def __init__(self, held: object) -> None:
        self.held = (held, self)


def test_an_older_graph_is_not_destroyed_during_a_capture(collects_on_demand: None) -> None:
    case = Case(Batch((replace(FIRST, query_len=2, block_ids=(3, 4, 5)),), 1))
    bench = Bench(binding_of(write_position_ids, "position_ids"), case, "cuda")
    call = bench.call(POISON)
    call.run()

    def littering() -> None:
        gc.set_threshold(1)
        assert [[] for _ in range(100)]
        write_position_ids(**call.arguments)

    older = weakref.ref(Garbage(captured_graph(littering)))
    gc.set_threshold(0)
    graph, _ = captured_graph(littering)
    assert older() is not None
    graph.replay()
    assert call.outputs[0].tensor is not None and call.outputs[0].tensor.tolist()[:2] == [1, 2]
