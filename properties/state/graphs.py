"""GPU: run the steps of an engine through captured graphs, and under torch's sync-debug mode."""

from collections.abc import Hashable
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from cumae.properties.checks.never_synchronises import synchronised
from cumae.properties.results.verdict import Finding
from cumae.properties.running.bench import POISON, Bench
from cumae.properties.running.call import Call
from cumae.properties.running.cuda_graphs import captured_graph
from cumae.properties.running.observation import KernelRaised, Observation
from cumae.properties.running.returned import returned_by
from cumae.properties.state.system import System


class GraphSystem(System):
    """Capture a graph for each set of shapes and host numbers, and replay it at every step that has them.

    A number that a function returns to the host is fixed at the capture, so it is not compared.
    """

    check = "replays_in_graph"
    takes_turns = False
    num_captured = 0

    def launch(self, call: Call) -> Any:
        """Replay the step's graph; capture it first if there is none."""
        key = _launch_key(call)
        graphs: dict[Hashable, tuple[torch.cuda.CUDAGraph, Any]] = self.__dict__.setdefault("graphs", {})
        if self.call is not None and not call.reuses:
            graphs.clear()  # the buffers have grown and moved
        if key not in graphs:
            with self.allocated:
                call.run()
            try:
                graphs[key] = captured_graph(partial(call.function, **call.arguments))
            except Exception as error:
                torch.cuda.synchronize()
                raise KernelRaised.of(error, call.function, " during capture") from error
            self.num_captured += 1
        graph, answer = graphs[key]
        graph.replay()
        torch.cuda.synchronize()
        return answer

    def judge(self, seen: Observation, bench: Bench, answer: Any) -> Finding | None:
        """Compare like ``System``, without host numbers."""
        on_device = {
            n: w for n, w in seen.outputs.items() if n in self.binding.outputs or n in _tensors(self, answer)
        }
        return super().judge(replace(seen, outputs=on_device), bench, answer)


class SyncSystem(System):
    """Run every step once on a twin to compile the kernels, then under torch's sync-debug mode."""

    check = "never_synchronises"
    takes_turns = False
    twin: Any = None
    twin_call: Call | None = None

    def step(self, case: Any) -> Finding | None:
        """Run one step and report whether it synchronised, allocated, or was wrong."""
        if self.binding.keeps_state and self.twin is None:
            self.twin = Bench(self.binding, case, self.device).made()
        bench = Bench(self.binding, case, self.device, self.previous)
        twin = bench.call(POISON, self.twin_call, function=self.twin)
        self.twin_call = twin
        try:
            twin.run()
        except KernelRaised as error:
            if case.layout.host_lens or not isinstance(error.__cause__, ValueError):
                raise
        self.waited: Finding | None = None
        finding = super().step(case)
        return self.waited or finding

    def launch(self, call: Call) -> Any:
        """Call the function once with the debug mode on."""
        answer, self.waited = synchronised(call, allocates=not self.binding.keeps_state)
        return answer


def _tensors(system: System, answer: Any) -> set[str]:
    values = returned_by(system.binding, answer)
    return {name for name, value in values.items() if isinstance(value, torch.Tensor)}


def _launch_key(call: Call) -> Hashable:
    """Return the values that a captured call depends on: dtypes, shapes, strides and host numbers."""
    buffers = (*call.inputs, *call.outputs)
    shapes = tuple((b.name, b.dtype, b.shape, b.strides) for b in buffers)
    return shapes, tuple(sorted((name, str(value)) for name, value in call.numbers.items()))
