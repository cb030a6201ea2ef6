"""SGLang's names for chunks of linear attention, and for the keys of each token of a step."""

from typing import Any

from cumae.oracle import ANY, Inputs
from cumae.properties.dialects.chunk_lists import CHUNK_INPUTS, CHUNK_OUTPUTS
from cumae.properties.dialects.dialect import Input
from cumae.properties.dialects.output import Output
from cumae.properties.dialects.sglang.step import num_rows


def _of_rows(name: str, follows: str, more: int = 0) -> Output:
    """Return an output with an entry for each row of the step and ``more``; padding may hold anything."""

    def expect(answer: Any, inputs: Inputs) -> list[Any]:
        live = getattr(answer, follows)[: inputs.case.batch.num_tokens + more]
        return [*live, *[ANY] * (num_rows(inputs.case) + more - len(live))]

    return Output(
        name,
        follows=follows,
        shape=lambda case: (num_rows(case) + more,),
        expect=expect,
        is_captured=follows == "key_lens",
    )


CUT_INPUTS = {
    **CHUNK_INPUTS,
    "dsa_index_topk": Input(lambda inputs: inputs.case.options.selection.topk, ("topk",)),
}
CUT_OUTPUTS = {
    "sequence_chunks": CHUNK_OUTPUTS,
    "flat_decodes": (
        _of_rows("seqlens_expanded", "key_lens"),
        _of_rows("dsa_cache_seqlens", "selected_lens"),
        _of_rows("dsa_cu_seqlens_k", "selected_indptr", 1),
    ),
}
