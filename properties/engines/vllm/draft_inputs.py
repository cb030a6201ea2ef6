"""Steps of draft models, from the step before and what was rejected of it."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from cumae.oracle import Case
from cumae.properties.engines.vllm.engine import DRAFTS, ENGINE, STEPS

Tensor = torch.Tensor
_FAR = 2**30
_DECODES = STEPS.having(phases=("decode",), empty_requests=False, min_tokens=1)
_SINGLE = _DECODES.having(max_query_len=1)


def _held(values: Callable[[Case], Sequence[int]], dtype: str) -> Callable[[Case], Any]:
    return lambda case: np.array([*values(case)], dtype=dtype)


def _rejected(case: Case) -> list[int]:
    return [b % 3 for b in range(len(case.batch.requests))]


def _lens_before(case: Case) -> list[int]:
    """Return the keys of each request after the step before, rejected ones counted."""
    pairs = zip(case.batch.requests, _rejected(case), strict=True)
    return [request.context_len + rejected for request, rejected in pairs]


_AFTER = DRAFTS.extend(
    num_rejected=_held(_rejected, "int32"),
    lens_before=_held(_lens_before, "int32"),
)
_TARGET = "vllm/v1/worker/gpu/spec_decode/target_dependent_ar/speculator.py"


def _next(function: Any, rejected: Tensor, lens: Tensor, **buffers: Tensor) -> None:
    """Call the function with the buffers that are given, and others that are not compared."""
    ids, samples = torch.zeros_like(rejected), torch.zeros_like(rejected, dtype=torch.int64)
    padded = buffers.get("seq_lens", buffers.get("query_start_loc", rejected))
    count = len(padded) - ("query_start_loc" in buffers)
    held = {
        "positions": samples.clone(),
        "query_start_loc": padded.new_empty(count + 1),
        "seq_lens": padded.new_empty(count),
        **buffers,
    }
    function(ids, lens, rejected, SimpleNamespace(input_ids=ids.clone(), **held), samples, _FAR, count)


@ENGINE.adapts(
    _TARGET,
    "prepare_decode_inputs",
    operation="position_ids",
    dialect=_AFTER,
    domain=_SINGLE.having(padding="none"),
)
def draft_positions(function: Any) -> Callable[..., None]:
    """The position of each request's first draft, in place of that of its last token."""

    def launch(
        previous_positions: Tensor, num_rejected: Tensor, lens_before: Tensor, positions: Tensor
    ) -> None:
        positions.copy_(previous_positions)
        _next(function, num_rejected, lens_before, positions=positions)

    return launch


@ENGINE.adapts(_TARGET, "prepare_decode_inputs", operation="sequence_layout", dialect=_AFTER, domain=_SINGLE)
def draft_starts(function: Any) -> Callable[..., None]:
    """The starts of the first drafts, padding included."""

    def launch(num_rejected: Tensor, lens_before: Tensor, query_start_loc: Tensor) -> None:
        _next(function, num_rejected, lens_before, query_start_loc=query_start_loc)

    return launch


@ENGINE.adapts(
    _TARGET,
    "prepare_decode_inputs",
    operation="local_lens",
    dialect=_AFTER,
    domain=_SINGLE.having(world=(1,)),
)
def draft_lens(function: Any) -> Callable[..., None]:
    """The keys that the first drafts see, 0 on padding."""

    def launch(num_rejected: Tensor, lens_before: Tensor, dcp_local_seq_lens: Tensor) -> None:
        _next(function, num_rejected, lens_before, seq_lens=dcp_local_seq_lens)

    return launch
