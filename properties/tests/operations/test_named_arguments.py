"""Inputs and outputs by name: taken for each other, renamed, returned in a dict, left out, overrun."""

from itertools import pairwise
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

import cumae
from cumae.oracle import Batch, Case, Request
from cumae.properties.checks import CHECKS, Trial, checks_for
from cumae.properties.dialects import VLLM
from cumae.properties.operations.binding import binding_of
from cumae.properties.running.device import prepare

DEVICE = prepare("auto")


def owners(query_start_loc: torch.Tensor, req_id_per_token: torch.Tensor) -> None:
    starts = query_start_loc.clamp(0, 9).tolist()
    req_id_per_token.zero_()
    for b, (start, stop) in enumerate(pairwise(starts)):
        req_id_per_token[start:stop] = b


def ids_of_other_length(query_start_loc: torch.Tensor) -> dict[str, torch.Tensor]:
    """Returns no ids if it reads poison as the number of tokens."""
    count = max(int(query_start_loc[-1]), 0) % 2**20
    return {"req_id_per_token": torch.zeros(count, dtype=torch.int32, device=query_start_loc.device)}


@triton.jit
def _copy(starts, owners) -> None:  # type: ignore[no-untyped-def]
    tl.store(owners, tl.load(owners + tl.load(starts)))


def reads_beyond(query_start_loc: torch.Tensor, req_id_per_token: torch.Tensor) -> None:
    _copy[(1,)](query_start_loc, req_id_per_token)


@pytest.mark.parametrize(
    ("function", "check"),
    [
        (owners, "writes_everything"),
        (ids_of_other_length, "agrees"),
        pytest.param(
            reads_beyond,
            "stays_in_bounds",
            marks=pytest.mark.skipif(DEVICE == "cuda", reason="addresses are watched in the interpreter"),
        ),
    ],
)
def test_an_output_that_is_taken_for_an_input_is_told(function: Any, check: cumae.CheckName) -> None:
    domain = cumae.Domain(captured=False, min_requests=2, min_tokens=2, max_requests=3)
    how: dict[str, Any] = {"dialect": "vllm", "domain": domain, "examples": 20, "save_to": None}
    failure = cumae.check(function, "sequence_layout", checks=[check], **how).failure
    assert failure is not None
    assert failure.finding.cause == (
        "`query_start_loc` is an output of sequence_layout here and has no value before the call; "
        "if the function reads it, give it another name: DIALECTS['vllm'].extend(other='query_start_loc'); "
        "dialect flashinfer has `query_start_loc` as input `qo_indptr`"
    )


def test_a_report_of_an_error_says_which_outputs_hold_poison() -> None:
    def ids(query_start_loc: torch.Tensor, req_id_per_token: torch.Tensor) -> None:
        lens = query_start_loc.diff().long().clamp(0, 9)
        req_id_per_token.copy_(torch.repeat_interleave(torch.arange(len(lens)), lens))

    verdict = cumae.check(ids, "sequence_layout", dialect="vllm", examples=5, save_to=None)
    assert verdict.failure is not None and verdict.failure.finding.check == "agrees"
    assert verdict.failure.finding.rule == (
        "a valid case must not raise; `query_start_loc` and `req_id_per_token` are outputs of "
        "sequence_layout, poison until they are written; to read one, give it another name: "
        "DIALECTS['vllm'].extend(other='query_start_loc'); "
        "dialect flashinfer has `query_start_loc` as input `qo_indptr`"
    )
    assert "  called with: query_start_loc=poison[2], req_id_per_token=poison[1]\n" in cumae.explain(verdict)


def test_a_report_of_an_error_says_nothing_of_the_only_output() -> None:
    def raises(query_start_loc: torch.Tensor, positions: torch.Tensor) -> None:
        raise IndexError

    verdict = cumae.check(raises, "position_ids", dialect="vllm", examples=5, save_to=None)
    assert verdict.failure is not None
    assert verdict.failure.finding.rule == "a valid case must not raise"


def test_an_input_may_have_another_name() -> None:
    mine = VLLM.extend(starts="query_start_loc", my_table="block_table")

    def owner_of(starts: torch.Tensor, req_id_per_token: torch.Tensor) -> None:
        req_id_per_token.zero_()
        bounds = starts.tolist()
        for b, (start, stop) in enumerate(pairwise(bounds)):
            req_id_per_token[start:stop] = b if start < stop else 0

    domain = cumae.Domain(captured=False)
    verdict = cumae.check(owner_of, "sequence_layout", dialect=mine, domain=domain, examples=20, save_to=None)
    assert verdict.ok, verdict.failure

    def by_table(query_start_loc: Any, positions: Any, my_table: Any, slot_mapping: Any) -> None:
        return None

    def by_its_own(query_start_loc: Any, positions: Any, block_table: Any, slot_mapping: Any) -> None:
        return None

    bound, own = (binding_of(f, "slot_mapping", mine) for f in (by_table, by_its_own))
    assert (bound.features, checks_for(bound)) == (own.features, checks_for(own))


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        (None, ", must be an Input, a function of the case, or the name of an input"),
        (7, ", must be an Input, .*; a value that all cases share is mine=lambda case: …$"),
        ("seq_len", r" \(did you mean 'seq_lens'.*, must be an input of dialect vllm$"),
        ("colour", ", must be an input of dialect vllm$"),
    ],
)
def test_what_is_no_input_is_refused_at_once(given: Any, rule: str) -> None:
    with pytest.raises(ValueError, match=rf"^mine = {given!r}{rule}"):
        VLLM.extend(mine=given)


@pytest.mark.parametrize("given", ["some", "none", "unknown", "wrong", "both"])
def test_a_dict_names_the_outputs_it_holds(given: str) -> None:
    def layout(query_lens: torch.Tensor, num_tokens_padded: int) -> dict[str, torch.Tensor]:
        longest = query_lens.max().reshape(1) if len(query_lens) else torch.zeros(1, device=query_lens.device)
        total = query_lens.cumsum(0)
        starts = torch.cat([total.new_zeros(1), total]).int()
        found = {"max_seqlen_q": (longest + (given == "wrong")).int()}
        if given == "both":
            found["cu_seqlens_q"] = starts
        if given == "unknown":
            found["max_len"] = longest.int()
        return {} if given == "none" else found

    domain = cumae.Domain(captured=False)
    verdict = cumae.check(layout, "sequence_layout", domain=domain, examples=20, save_to=None)
    assert verdict.ok == (given in ("some", "both")), verdict.failure
    said = {
        "none": "returned a dict without an output, must name outputs only: cu_seqlens_q, cu_seqlens_k, ",
        "unknown": "returned a dict with 'max_len', must name outputs only: cu_seqlens_q, cu_seqlens_k, ",
        "wrong": "`max_seqlen_q[0]` differs from the oracle",
    }
    if verdict.failure is not None:
        assert said[given] in verdict.failure.finding.message


def test_an_output_that_a_second_call_leaves_out_is_told() -> None:
    calls: list[int] = []

    def layout(query_lens: torch.Tensor) -> dict[str, torch.Tensor]:
        longest = query_lens.max().reshape(1) if len(query_lens) else torch.zeros(1)
        calls.append(0)
        name = "max_seqlen_q" if len(calls) % 2 else "max_seqlen_k"
        return {name: longest.int()}

    case = Case(Batch((Request(0, 2, (3,)),), 4))
    trial = Trial(binding_of(layout, "sequence_layout"), case, DEVICE)
    found = CHECKS["writes_everything"](trial)
    assert found is not None and found.message == "`max_seqlen_q` was not returned by a second call"


def test_a_write_behind_a_tensor_is_told_by_its_element() -> None:
    def launch(position_ids: torch.Tensor, num_tokens_padded: int) -> None:
        beyond = position_ids.as_strided((num_tokens_padded + 3,), (1,))
        beyond[num_tokens_padded] = 1

    case = Case(Batch((Request(0, 2, (3,)),), 4))
    found = CHECKS["stays_in_bounds"](Trial(binding_of(launch, "position_ids"), case, DEVICE))
    assert found is not None
    assert found.message == "`position_ids` was written at element 2, of which it has 2"


def test_a_changed_input_is_told_with_its_value_before_and_behind() -> None:
    def launch(context_lens: torch.Tensor, position_ids: torch.Tensor) -> None:
        position_ids.copy_(torch.arange(7, 7 + len(position_ids)))
        context_lens[0] = -3

    case = Case(Batch((Request(7, 2, (3, 1, 2)),), 4))
    found = CHECKS["stays_in_bounds"](Trial(binding_of(launch, "position_ids"), case, DEVICE))
    assert found is not None
    assert (
        found.message
        == "input `context_lens` was changed at element 0, of which it has 1: it was 7 and is -3"
    )


def returns_ids(token_to_request: torch.Tensor, position_ids: torch.Tensor) -> dict[str, torch.Tensor]:
    return {"position_ids": token_to_request.long()}


def test_an_output_that_is_returned_and_a_parameter_is_told() -> None:
    how: dict[str, Any] = {"domain": cumae.Domain(captured=False), "examples": 5, "save_to": None}
    failure = cumae.check(returns_ids, "position_ids", checks=["writes_everything"], **how).failure
    assert failure is not None
    assert failure.finding.cause == (
        "`position_ids` is a parameter, so it must be written to; what the function returns counts only "
        "if `position_ids` is no parameter"
    )
