"""Chunks of prefills for the sparse indexer, and parts of their rows."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from cumae.oracle import Case, Inputs
from cumae.properties.dialects import VLLM, Output
from cumae.properties.engines.arrays import int32
from cumae.properties.engines.pages import having
from cumae.properties.engines.vllm.engine import ENGINE, STEPS

Tensor = torch.Tensor
_INDEXER = "vllm/v1/attention/backends/mla/indexer.py"
_BEFORE = (3, 40)
"""New tokens and keys of a request that stands in front of the chunk."""


def _prefill_starts(case: Case) -> list[int]:
    lens = [request.query_len for request in case.batch.requests if request.phase == "prefill"]
    return [0, *np.cumsum([_BEFORE[0], *lens]).tolist()]


def _prefill_lens(case: Case) -> list[int]:
    lens = [request.seq_len for request in case.batch.requests if request.phase == "prefill"]
    return [_BEFORE[1], *lens]


def _group_lens(case: Case) -> list[int]:
    return [length // case.options.keys.compress_ratio for length in _prefill_lens(case)]


def _owners(case: Case) -> list[int]:
    """Return the request of each row of the chunk's keys."""
    return [b for b, count in enumerate(_group_lens(case)[1:]) for _ in range(count)]


def _cut(case: Case) -> tuple[int, int]:
    """Return the rows of a part of the chunk: a middle one, up to one past the end of the chunk."""
    count = _prefill_starts(case)[-1] - _BEFORE[0]
    return count // 3, count - count // 4 if count % 2 else count + 1


def _part_of(bound: Output) -> Output:
    """Return a bound of the windows for the rows of a part."""

    def expect(answer: Any, inputs: Inputs) -> list[Any]:
        assert bound.expect is not None
        return bound.expect(answer, inputs)[slice(*_cut(inputs.case))]

    def shape(case: Case) -> tuple[int, ...]:
        start, stop = _cut(case)
        return (min(stop, _prefill_starts(case)[-1] - _BEFORE[0]) - start,)

    return Output(f"part_{bound.name}", follows=bound.follows, axis="part_row", shape=shape, expect=expect)


_CHUNK = having(
    VLLM,
    "causal_windows",
    *VLLM.outputs["causal_windows"],
    *map(_part_of, VLLM.outputs["causal_windows"]),
    Output(
        "token_to_seq",
        "int32",
        "key_row_of_chunk",
        "the request of the row of keys",
        follows="ks",
        shape=lambda case: (len(_owners(case)),),
        expect=lambda _, inputs: _owners(inputs.case),
    ),
    starts_of_step=int32(_prefill_starts),
    lens_of_step=int32(_prefill_lens),
    groups_of_step=int32(_group_lens),
    first_of_part=lambda case: _cut(case)[0],
    stop_of_part=lambda case: _cut(case)[1],
)


@ENGINE.adapts(
    _INDEXER,
    "build_prefill_chunk_metadata",
    operation="causal_windows",
    dialect=_CHUNK,
    domain=STEPS,
    DeepseekV32IndexerPrefillChunkMetadata=SimpleNamespace,
)
def prefill_chunk(function: Any) -> Callable[..., dict[str, Tensor]]:
    """The chunk of all prefills but one in front of it, and a part of its rows.

    A chunk without keys is not computed; its windows are empty.
    """

    def launch(
        starts_of_step: Tensor,
        lens_of_step: Tensor,
        groups_of_step: Tensor,
        first_of_part: int,
        stop_of_part: int,
        compress_ratio: int,
        dcp_rank: int,
        dcp_world_size: int,
        cp_kv_cache_interleave_size: int,
    ) -> dict[str, Tensor]:
        table = starts_of_step.new_empty(len(lens_of_step), 1)
        step = (1, len(lens_of_step), starts_of_step, starts_of_step.cpu(), lens_of_step, groups_of_step)
        ranks = {
            "dcp_rank": dcp_rank,
            "dcp_world_size": dcp_world_size,
            "cp_kv_cache_interleave_size": cp_kv_cache_interleave_size,
        }
        found = []
        for rows in (None, slice(first_of_part, stop_of_part)):
            found.append(function(*step, groups_of_step.cpu(), table, compress_ratio, rows, **ranks))
        if found[0] is None:
            count = int(starts_of_step[-1]) - int(starts_of_step[1])
            none = starts_of_step.new_zeros(count)
            part = none[first_of_part:stop_of_part]
            names = ("cu_seqlen_ks", "cu_seqlen_ke", "part_cu_seqlen_ks", "part_cu_seqlen_ke", "token_to_seq")
            return dict(zip(names, (none, none.clone(), part, part.clone(), none[:0]), strict=True))
        whole, part = found
        return {
            "cu_seqlen_ks": whole.cu_seqlen_ks,
            "cu_seqlen_ke": whole.cu_seqlen_ke,
            "part_cu_seqlen_ks": part.cu_seqlen_ks,
            "part_cu_seqlen_ke": part.cu_seqlen_ke,
            "token_to_seq": whole.token_to_seq,
        }

    return launch
