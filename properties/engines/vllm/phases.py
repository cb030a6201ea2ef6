"""Decodes, extends and new prompts of a step that has them in this order."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from cumae.oracle import Case, causal_windows
from cumae.properties.dialects import VLLM, Output
from cumae.properties.engines.arrays import int32
from cumae.properties.engines.pages import having
from cumae.properties.engines.vllm.engine import ENGINE, UNPADDED

Tensor = torch.Tensor
_UTILS = "vllm/v1/attention/backends/utils.py"
_FULL = UNPADDED.having(empty_requests=False)


def _threshold(case: Case) -> int:
    """Return the most tokens of a decode."""
    return 1 + len(case.batch.requests) % 4


def _ordered(case: Case) -> list[tuple[int, int]]:
    """Return context and new tokens of each request in vLLM's order: decodes, extends, new prompts."""
    lens = [(request.context_len, request.query_len) for request in case.batch.requests]
    return sorted(lens, key=lambda one: (one[0] == 0, one[1] > _threshold(case)))


def _ordered_starts(case: Case) -> list[int]:
    return [0, *np.cumsum([new for _, new in _ordered(case)]).tolist()]


def _counts(case: Case) -> list[list[int]]:
    """Return requests and tokens of decodes, extends and new prompts, by the windows of the step.

    The step is cut in front of the first request with more tokens than a decode has, and in front of the
    first such prompt that is new.
    """
    contexts, lens = zip(*_ordered(case), strict=True)
    longer = [new > _threshold(case) for new in lens]
    prefills = [any(longer[: b + 1]) for b in range(len(lens))]
    fresh = [one and not context for one, context in zip(longer, contexts, strict=True)]
    prompts = [any(fresh[: b + 1]) for b in range(len(lens))]
    seen = [
        sum(stop > 0 for stop in causal_windows(contexts, lens, flags, sum(lens)).ke)
        for flags in (prefills, prompts)
    ]
    requests = [len(lens) - sum(prefills), sum(prefills) - sum(prompts), sum(prompts)]
    return [requests, [sum(lens) - seen[0], seen[0] - seen[1], seen[1]]]


def _two(case: Case) -> list[int]:
    return [part for first, *more in _counts(case) for part in (first, sum(more))]


def _three(case: Case) -> list[int]:
    requests, tokens = _counts(case)
    return [*requests, *tokens]


def _counted(count: int, values: Callable[[Case], list[int]]) -> Output:
    return Output(
        "counts",
        "int64",
        "phase",
        "requests of each phase, then tokens",
        follows="ke",
        shape=lambda case: (count,),
        expect=lambda _, inputs: values(inputs.case),
    )


_ORDERED = VLLM.extend(
    ordered_starts=int32(_ordered_starts),
    ordered_lens=int32(lambda case: [sum(one) for one in _ordered(case)]),
    threshold=_threshold,
)


def _splitting(function: Any) -> Callable[..., dict[str, Tensor]]:
    """Return the launch of a function that counts the parts of a step."""

    def launch(
        ordered_starts: Tensor, ordered_lens: Tensor, threshold: int, max_query_len: int
    ) -> dict[str, Tensor]:
        step = SimpleNamespace(
            max_query_len=max_query_len,
            num_reqs=len(ordered_lens),
            num_actual_tokens=int(ordered_starts[-1]),
            query_start_loc_cpu=ordered_starts,
            seq_lens_cpu_upper_bound=ordered_lens,
        )
        return {"counts": torch.tensor([int(one) for one in function(step, threshold)])}

    return launch


@ENGINE.adapts(
    _UTILS,
    "split_decodes_and_prefills",
    operation="causal_windows",
    dialect=having(_ORDERED, "causal_windows", _counted(4, _two)),
    domain=_FULL,
)
def split_decodes_and_prefills(function: Any) -> Callable[..., dict[str, Tensor]]:
    """Decodes of up to a number of tokens, which stand first; a short prompt in front is one of them."""
    return _splitting(function)


@ENGINE.adapts(
    _UTILS,
    "split_decodes_prefills_and_extends",
    operation="causal_windows",
    dialect=having(_ORDERED, "causal_windows", _counted(6, _three)),
    domain=_FULL,
)
def split_decodes_prefills_and_extends(function: Any) -> Callable[..., dict[str, Tensor]]:
    """The same, with prompts whose first tokens are cached apart from new ones."""
    return _splitting(function)
