"""Steps that come from other ones: microbatches of a larger step, and steps that parallel drafts extend."""

from collections.abc import Callable
from itertools import accumulate
from types import SimpleNamespace
from typing import Any

import torch

from cumae.oracle import Case
from cumae.properties.dialects import VLLM
from cumae.properties.engines.arrays import int32
from cumae.properties.engines.vllm.engine import ENGINE, UNPADDED

Tensor = torch.Tensor
_BEFORE, _BEHIND = 3, 4
"""The tokens of the requests of a larger step that stand before those of the case, and behind them."""
_CUT_BEFORE, _CUT_BEHIND = 2, 1
"""The tokens that a larger step has more of the case's first request, and of its last."""


def _query_lens(case: Case) -> list[int]:
    return [request.query_len for request in case.batch.requests]


def _starts_of_larger(case: Case) -> list[int]:
    return [*accumulate([0, _BEFORE, *_query_lens(case), _BEHIND])]


def _starts_of_cut(case: Case) -> list[int]:
    """Return the starts of a larger step, whose microbatch begins and ends within a request."""
    lens = _query_lens(case)
    lens[0] += _CUT_BEFORE
    lens[-1] += _CUT_BEHIND
    return [*accumulate([0, _BEFORE, *lens, _BEHIND])]


def _lens_of_cut(case: Case) -> list[int]:
    """Return the keys of the requests of the same step: only later tokens add to them."""
    lens = [request.seq_len for request in case.batch.requests]
    lens[-1] += _CUT_BEHIND
    return [_BEFORE, *lens, _BEHIND]


_MICROBATCH = VLLM.extend(
    starts_of_larger=int32(_starts_of_larger),
    starts_of_cut=int32(_starts_of_cut),
    lens_of_cut=int32(_lens_of_cut),
)
_SLICES = "vllm/v1/worker/gpu/ubatch_utils.py"


@ENGINE.adapts(
    "vllm/v1/worker/ubatch_utils.py",
    "slice_query_start_locs",
    operation="sequence_layout",
    dialect=_MICROBATCH,
    domain=UNPADDED,
)
def slice_query_start_locs(function: Any) -> Callable[..., dict[str, Tensor]]:
    """Runner V1: the starts of a microbatch of whole requests."""

    def launch(starts_of_larger: Tensor, num_reqs: int) -> dict[str, Tensor]:
        return {"query_start_loc": function(starts_of_larger, slice(1, 1 + num_reqs))}

    return launch


@ENGINE.adapts(
    _SLICES, "_slice_query_start_loc", operation="sequence_layout", dialect=_MICROBATCH, domain=UNPADDED
)
def slice_query_start_loc(function: Any) -> Callable[..., None]:
    """Runner V2: the starts of a microbatch that cuts its first and its last request."""

    def launch(starts_of_cut: Tensor, num_reqs: int, num_tokens: int, query_start_loc: Tensor) -> None:
        first = _BEFORE + _CUT_BEFORE
        function(starts_of_cut, query_start_loc, 1, 1 + num_reqs, first, num_tokens)

    return launch


@ENGINE.adapts(
    _SLICES,
    "_slice_seq_lens",
    operation="local_lens",
    dialect=_MICROBATCH,
    domain=UNPADDED.having(world=(1,)),
)
def slice_seq_lens(function: Any) -> Callable[..., None]:
    """Runner V2: the keys of a microbatch, whose last request has later tokens in the next one."""

    def launch(
        lens_of_cut: Tensor,
        starts_of_cut: Tensor,
        num_reqs: int,
        num_tokens: int,
        dcp_local_seq_lens: Tensor,
    ) -> None:
        stop = _BEFORE + _CUT_BEFORE + num_tokens
        function(lens_of_cut, dcp_local_seq_lens, starts_of_cut, 1, 1 + num_reqs, stop)

    return launch


def _extension(case: Case) -> int:
    """Return the tokens that every request has more than in the step before: as many as fit."""
    return min(_query_lens(case))


_SHORTER = VLLM.extend(
    extension=_extension,
    shorter_starts=int32(
        lambda case: [0, *accumulate(length - _extension(case) for length in _query_lens(case))]
    ),
    shorter_lens=int32(lambda case: [r.seq_len - _extension(case) for r in case.batch.requests]),
)


def _extended(function: Any, starts: Tensor, lens: Tensor, extension: int) -> Any:
    """Return the metadata of a step with more tokens for each request."""
    step = SimpleNamespace(
        query_start_loc=starts,
        query_start_loc_cpu=starts.cpu(),
        seq_lens=lens,
        num_actual_tokens=0,
        max_query_len=0,
        max_seq_len=0,
        batch_size=lambda: len(lens),
        replace=lambda **new: SimpleNamespace(**new),
    )
    places = torch.arange(len(starts), dtype=torch.int32, device=starts.device)
    return function(step, extension, places, starts)


_EXTEND = ("vllm/v1/spec_decode/utils.py", "extend_all_queries_by_N")


@ENGINE.adapts(*_EXTEND, operation="sequence_layout", dialect=_SHORTER, domain=UNPADDED)
def starts_of_extended(function: Any) -> Callable[..., dict[str, Tensor]]:
    """The starts of a step in which every request has N tokens more, for parallel drafts."""

    def launch(shorter_starts: Tensor, shorter_lens: Tensor, extension: int) -> dict[str, Tensor]:
        found = _extended(function, shorter_starts, shorter_lens, extension)
        return {"query_start_loc": found.query_start_loc}

    return launch


@ENGINE.adapts(*_EXTEND, operation="local_lens", dialect=_SHORTER, domain=UNPADDED.having(world=(1,)))
def lens_of_extended(function: Any) -> Callable[..., dict[str, Tensor]]:
    """The keys of the same step."""

    def launch(shorter_starts: Tensor, shorter_lens: Tensor, extension: int) -> dict[str, Tensor]:
        found = _extended(function, shorter_starts, shorter_lens, extension)
        return {"dcp_local_seq_lens": found.seq_lens}

    return launch
