"""The names that speculative decoding adds to vLLM's dialect: drafts of live requests, sampled rows.

Lists have exactly the entries of the step: no list is padded. vLLM schedules no request without new tokens.
"""

from collections.abc import Callable
from itertools import accumulate

from cumae.oracle import Case, Inputs
from cumae.oracle.model.drafts import num_drafts_of, num_logits_of
from cumae.properties.dialects.dialect import Input, held_ints
from cumae.properties.dialects.held import ints
from cumae.properties.dialects.output import Output


def num_drafts(case: Case) -> list[int]:
    """Return the drafts of each live request."""
    drafts = case.options.drafts
    return [num_drafts_of(one, drafts.max_drafts, drafts.draft_seed) for one in case.batch.requests]


def num_logits(case: Case) -> list[int]:
    """Return the sampled rows of each live request."""
    drafts = case.options.drafts
    return [num_logits_of(one, drafts.max_drafts, drafts.draft_seed) for one in case.batch.requests]


def _num_requests(case: Case) -> int:
    return len(case.batch.requests)


def _scheduled(inputs: Inputs) -> list[int]:
    sums: list[int] = inputs["cu_seqlens_q"]
    return sums[1 : _num_requests(inputs.case) + 1]


def live(name: str, axis: str, count: Callable[[Case], int]) -> Output:
    """Return an output of the operation's name that has only its live entries."""
    return Output(
        name,
        axis=f"live_{axis}",
        shape=lambda case: (count(case),),
        expect=lambda answer, inputs: getattr(answer, name)[: count(inputs.case)],
        is_captured=False,
    )


DRAFT_INPUTS = {
    "num_draft_tokens": held_ints("int32", lambda inputs: num_drafts(inputs.case), "max_drafts"),
    "cu_num_scheduled_tokens": Input(
        lambda inputs: ints(_scheduled(inputs), "int32", inputs.case.layout.garbage)
    ),
    "num_speculative_tokens": Input(lambda inputs: inputs.case.options.drafts.max_drafts, ("max_drafts",)),
}
DRAFT_OUTPUTS = {
    "draft_steps": (
        live("logits_indices", "logit", lambda case: sum(num_logits(case))),
        live("target_logits_indices", "draft", lambda case: sum(num_drafts(case))),
        live("bonus_logits_indices", "request", _num_requests),
        live("cu_num_draft_tokens", "request", _num_requests),
        Output(
            "cu_num_sampled_tokens",
            "int32",
            "live_request",
            "the sampled rows up to and including the request",
            shape=lambda case: (_num_requests(case),),
            expect=lambda _, inputs: list(accumulate(num_logits(inputs.case))),
            is_captured=False,
        ),
    )
}
