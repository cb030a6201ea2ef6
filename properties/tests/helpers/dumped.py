"""Tensors as an engine's step would be dumped, and what a batch says that comes back from them."""

from typing import Any

import torch

from cumae.oracle import Case, Inputs
from cumae.properties.dialects import Dialect, Ints


def dumped(dialect: Dialect, case: Case, names: tuple[str, ...], kind: int) -> dict[str, Any]:
    """Return inputs of a case; integers are a tensor, an array or a list, by ``kind``."""
    inputs = Inputs(case)
    held = {name: dialect.inputs[name].hold(inputs) for name in names}
    return {name: _as(one, kind) if isinstance(one, Ints) else one for name, one in held.items()}


def _as(held: Ints, kind: int) -> Any:
    return (torch.from_numpy(held.values), held.values, held.values.tolist())[kind % 3]


def said(case: Case) -> list[tuple[Any, ...]]:
    """Return lengths, live blocks, and the phase of what computes something."""
    return [
        (r.context_len, r.query_len, r.block_ids[: case.batch.num_live_blocks(r)], r.query_len and r.phase)
        for r in case.batch.requests
    ]
