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
    """Capture a graph for each set of tensors and host numbers, and replay it at every step that has them.

    A number that a function returns to the host is fixed at the capture, so it is not compared.
    """

    check = "replays_in_graph"
    takes_turns = False
    num_captured = 0

    def launch(self, call: Call) -> Any:
        """Replay the step's graph; capture it first if there is none."""
        key = _launch_key(call)
        graphs: dict[Hashable, tuple[torch.cuda.CUDAGraph, Any]] = self.__dict__.setdefault("graphs", {})
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
    """Return what a captured call depends on: addresses, dtypes, shapes, strides and host numbers."""
    tensors = tuple(
        (b.name, b.dtype, b.shape, b.strides, None if b.tensor is None else b.tensor.data_ptr())
        for b in (*call.inputs, *call.outputs)
    )
    return tensors, tuple(sorted((name, str(value)) for name, value in call.numbers.items()))
