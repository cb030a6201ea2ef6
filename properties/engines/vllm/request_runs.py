"""Whole requests packed into chunks of their keys."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from cumae.oracle import Case, Inputs
from cumae.properties.dialects import Input, Output
from cumae.properties.engines.parts import write_parts
from cumae.properties.engines.vllm.engine import ENGINE
from cumae.properties.engines.vllm.plans import PLANNED
from cumae.properties.engines.vllm.query_chunks import NARROW, narrow_workspace
from cumae.properties.operations import Operation

Tensor = torch.Tensor
_OFFSET = 3
"""The number that the first prefill has among all requests of the step."""


class RequestRuns(NamedTuple):
    """int32 [R]: run j is requests ``[run_start[j], run_stop[j])``; behind the runs both are -1."""

    run_start: list[int]
    run_stop: list[int]


def _room(context_lens: Sequence[int]) -> RequestRuns:
    room = [-1] * len(context_lens)
    return RequestRuns(room, room)


def _workspace(case: Case) -> int:
    """Return the rows of a workspace in which each request fits: vLLM asserts it."""
    return max([narrow_workspace(case), *(request.seq_len for request in case.batch.requests)])


def _faults(inputs: Inputs, outputs: Mapping[str, list[int]]) -> Sequence[str]:
    runs = [run for run in zip(outputs["run_start"], outputs["run_stop"], strict=True) if run != (-1, -1)]
    faults, reached, room = list[str](), 0, _workspace(inputs.case)
    for start, stop in runs:
        keys = sum(inputs["seq_lens"][start:stop])
        if start != reached or stop <= start:
            faults.append(f"requests [{start}, {stop}) follow request {reached - 1}")
        if keys > room:
            faults.append(f"requests [{start}, {stop}) have {keys} keys, and the workspace has {room}")
        reached = stop
    if reached != len(inputs["seq_lens"]):
        faults.append(f"requests [0, {reached}) of {len(inputs['seq_lens'])} are in a run")
    return faults


_RUNS = Operation(
    "request_runs",
    _room,
    tuple(
        Output(name, "int32", "chunk_part", shape=lambda case: (len(case.batch.requests),))
        for name in RequestRuns._fields
    ),
    frozenset({"workspace"}),
    "each request, also an empty one, is in one run, in order; the keys of a run fit the workspace",
    judge=_faults,
)


@ENGINE.adapts(
    "vllm/v1/attention/backends/utils.py",
    "split_prefill_chunks",
    operation=_RUNS,
    dialect=NARROW.extend(
        seq_lens_cpu="seq_lens",
        workspace_size=Input(lambda inputs: _workspace(inputs.case), ("workspace",)),
    ),
    domain=PLANNED,
)
def split_prefill_chunks(function: Any) -> Callable[..., None]:
    """Runs of prefills for sparse attention over gathered fp8 keys."""

    def launch(seq_lens_cpu: Tensor, workspace_size: int, run_start: Tensor, run_stop: Tensor) -> None:
        runs = function(seq_lens_cpu, workspace_size, _OFFSET)
        write_parts([(start - _OFFSET, stop - _OFFSET) for start, stop in runs], run_start, run_stop)

    return launch
