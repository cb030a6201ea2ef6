"""Rows that are sampled in steps with draft tokens, and what is rejected of them."""

from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from cumae.oracle import Case, Inputs
from cumae.properties.dialects import VLLM, Input, Output
from cumae.properties.dialects.held import ints
from cumae.properties.dialects.vllm.drafts import num_drafts, num_logits
from cumae.properties.engines.vllm.engine import ENGINE, NEW

Tensor = torch.Tensor
STEPS = NEW.having(empty_requests=False)
_RUNNER = "vllm/v1/worker/gpu_model_runner.py"
_BATCH = "vllm/v1/worker/gpu/input_batch.py"


def state_rows(case: Case) -> list[int]:
    """Return the state row of each request: none has the row of its own number."""
    count = len(case.batch.requests)
    return [2 * count - b for b in range(count)]


def num_sampled(case: Case) -> list[int]:
    """Return the tokens that each request keeps: one more than the drafts that are accepted."""
    return [1 + (7 * b + 3 * d) % (d + 1) for b, d in enumerate(num_drafts(case))]


def num_rejected(case: Case) -> list[int]:
    """Return the drafts that each request rejects."""
    return [n - kept for n, kept in zip(num_logits(case), num_sampled(case), strict=True)]


def held(values: Callable[[Case], list[int]]) -> Input:
    """Return an input of int32 numbers of a case, which depend on its drafts."""
    return Input(
        lambda inputs: ints(values(inputs.case), "int32", inputs.case.layout.garbage), ("max_drafts",)
    )


def _of_logits(name: str, rule: str, values: Callable[[Case], list[int]]) -> Output:
    """Return an output with an entry for each sampled row."""
    return Output(
        name,
        "int32",
        "live_logit",
        rule,
        shape=lambda case: (sum(num_logits(case)),),
        expect=lambda _, inputs: values(inputs.case),
    )


def of_requests(name: str, rule: str, values: Callable[[Inputs], list[int]]) -> Output:
    """Return an output with an entry for each live request."""
    return Output(
        name,
        "int32",
        "live_request",
        rule,
        shape=lambda case: (len(case.batch.requests),),
        expect=lambda _, inputs: values(inputs),
    )


def _last_kept(inputs: Inputs) -> list[int]:
    """Return the row of the last kept token of each request."""
    stops = inputs["cu_seqlens_q"][1:]
    return [stops[b] - 1 - rejected for b, rejected in enumerate(num_rejected(inputs.case))]


DRAFTS = replace(
    VLLM.extend(
        idx_mapping=held(state_rows),
        cu_num_logits=held(lambda case: [0, *accumulate(num_logits(case))]),
        num_logits=lambda case: sum(num_logits(case)),
        num_sampled=held(num_sampled),
    ),
    outputs={
        **VLLM.outputs,
        "draft_steps": (
            *VLLM.outputs["draft_steps"],
            _of_logits(
                "expanded_idx_mapping",
                "the state row of the request that samples",
                lambda case: [
                    row for row, n in zip(state_rows(case), num_logits(case), strict=True) for _ in range(n)
                ],
            ),
            _of_logits(
                "expanded_local_pos",
                "the number of the sample within its request",
                lambda case: [i for n in num_logits(case) for i in range(n)],
            ),
            of_requests(
                "num_rejected",
                "drafts and one more, less the tokens kept",
                lambda inputs: num_rejected(inputs.case),
            ),
            of_requests("token_indices_to_sample", "the row of the last token kept", _last_kept),
        ),
    },
)


@ENGINE.adapts(
    _RUNNER,
    "GPUModelRunner._calc_spec_decode_metadata",
    "GPUModelRunner._get_cumsum_and_arange",
    operation="draft_steps",
    dialect=DRAFTS,
    domain=STEPS,
    async_tensor_h2d=lambda array, device: torch.from_numpy(np.array(array)).to(device),
    SpecDecodeMetadata=SimpleNamespace,
)
def calc_spec_decode_metadata(method: Any, sums_and_places: Any) -> Callable[..., dict[str, Tensor]]:
    """Runner V1: computed on the host with NumPy."""

    def launch(
        num_draft_tokens: Tensor, cu_num_scheduled_tokens: Tensor, num_tokens: int
    ) -> dict[str, Tensor]:
        device = num_draft_tokens.device
        runner = SimpleNamespace(
            arange_np=np.arange(num_tokens),
            _arange_scratch=np.empty(num_tokens, dtype=np.int32),
            device=device,
            input_ids=SimpleNamespace(gpu=torch.zeros(num_tokens, dtype=torch.int32, device=device)),
        )
        runner._get_cumsum_and_arange = lambda *args, **more: sums_and_places(runner, *args, **more)
        found = method(runner, num_draft_tokens.cpu().numpy(), cu_num_scheduled_tokens.cpu().numpy())
        names = (
            "logits_indices target_logits_indices bonus_logits_indices cu_num_draft_tokens"
            " cu_num_sampled_tokens"
        )
        return {name: getattr(found, name) for name in names.split()}

    return launch


@ENGINE.adapts(_BATCH, "expand_idx_mapping", operation="draft_steps", dialect=DRAFTS, domain=STEPS)
def expand_idx_mapping_of_drafts(function: Any) -> Callable[..., dict[str, Tensor]]:
    """Runner V2: request and number of each sample."""

    def launch(
        idx_mapping: Tensor, num_logits: int, cu_num_logits: Tensor, num_speculative_tokens: int
    ) -> dict[str, Tensor]:
        rows, places = function(idx_mapping, num_logits, cu_num_logits, num_speculative_tokens + 1)
        return {"expanded_idx_mapping": rows, "expanded_local_pos": places}

    return launch


@ENGINE.adapts(
    "vllm/v1/spec_decode/utils.py",
    "eagle_prepare_inputs_padded_kernel",
    operation="draft_steps",
    dialect=DRAFTS,
    domain=STEPS,
)
def eagle_prepare_inputs_padded(kernel: Any) -> Callable[..., dict[str, Tensor]]:
    """Drafts that are rejected, and the row of the last token kept.

    Of requests without drafts, every other one has no sampled token, as a prompt that is not at its end.
    """

    def launch(
        num_draft_tokens: Tensor, num_sampled: Tensor, query_start_loc: Tensor, num_reqs: int
    ) -> dict[str, Tensor]:
        sums = num_draft_tokens.cumsum(0, dtype=torch.int32)
        has_sampled = torch.arange(len(num_sampled), device=num_sampled.device) % 2 == 0
        sampled = torch.where(has_sampled | (num_draft_tokens > 0), num_sampled, 0)
        rows, rejected = torch.empty_like(num_sampled), torch.empty_like(num_sampled)
        kernel[(num_reqs,)](sums, sampled, query_start_loc, rows, rejected, num_reqs)
        return {"token_indices_to_sample": rows, "num_rejected": rejected}

    return launch
