"""The names of SGLang's allocator: lengths of live requests, their last slots, free pages, the pool after.

``end_offset``: tokens after the step, in every mode; ``seq_lens`` has no drafts in a verify step.
"""

from typing import Any

from cumae.oracle import ANY, Case, Inputs
from cumae.oracle.model.rules import INT32_MAX
from cumae.properties.dialects.dialect import Input, held_ints
from cumae.properties.dialects.output import Output


def _live(name: str) -> Input:
    return held_ints("int64", lambda inputs: inputs[name][: len(inputs.case.batch.requests)])


def _num_requests(case: Case) -> tuple[int, ...]:
    return (len(case.batch.requests),)


def _last_locs(_: Any, inputs: Inputs) -> list[Any]:
    """Return the last slots of live requests, and ANY for one that a pool of 32 bits does not hold."""
    slots = inputs["last_loc"][: len(inputs.case.batch.requests)]
    return [ANY if slot > INT32_MAX else slot for slot in slots]


ALLOCATOR_INPUTS = {
    "prefix_lens": _live("prefix_lens"),
    "end_offset": _live("seq_lens"),
    "last_loc": _live("last_loc"),
    "free_pages": held_ints("int64", lambda inputs: inputs["free_pages"]),
    "extend_num_tokens": Input(lambda inputs: inputs.case.batch.num_tokens),
}
ALLOCATOR_OUTPUTS = {
    "allocate_slots": (
        Output(
            "out_cache_loc",
            axis="live_slot",
            shape=lambda case: (case.batch.num_tokens,),
            expect=lambda answer, inputs: answer.out_cache_loc[: inputs.case.batch.num_tokens],
        ),
        Output(
            "num_new_pages",
            "int64",
            "step",
            "the pages that all requests take",
            shape=lambda case: (1,),
            expect=lambda answer, inputs: [sum(answer.num_pages)],
        ),
        Output(
            "last_locs",
            "int64",
            "live_request",
            "the slot of position prefix_len - 1, -1 without a prefix",
            shape=_num_requests,
            expect=_last_locs,
        ),
    )
}
