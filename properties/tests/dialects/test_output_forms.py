"""An output whose form allows one value of an option is told against a promise of another."""

from typing import Any

import pytest

import cumae
from cumae.properties.cases.domain import Domain
from cumae.properties.operations.binding import binding_of


@pytest.mark.parametrize(("promised", "is_right"), [((False,), False), ((True, False), True), (None, True)])
def test_an_output_in_one_form_refuses_a_promise_of_another(promised: Any, is_right: bool) -> None:
    def cut(query_start_loc: Any, chunk_size: int, cu_chunk_seqlen: Any) -> None:
        raise NotImplementedError

    domain = Domain() if promised is None else Domain(absolute_chunks=promised)
    if is_right:
        assert binding_of(cut, "sequence_chunks", "vllm", domain).outputs == ("cu_chunk_seqlen",)
        return
    with pytest.raises(
        ValueError, match=r"absolute_chunks = \(False,\), must hold True: `cu_chunk_seqlen` has"
    ):
        binding_of(cut, "sequence_chunks", "vllm", domain)


def test_a_returned_output_in_one_form_is_told_against_a_promise_of_another() -> None:
    def cut(query_start_loc: Any, chunk_size: int) -> dict[str, Any]:
        return {"seq_idx": query_start_loc[:1], "last_chunk_indices": query_start_loc[:1]}

    verdict = cumae.check(
        cut,
        "sequence_chunks",
        dialect="vllm",
        domain=Domain(absolute_chunks=(False,)),
        examples=5,
        save_to=None,
    )
    assert verdict.failure is not None
    told = "returned seq_idx, which has no form but that of absolute_chunks = True"
    assert told in verdict.failure.finding.message
