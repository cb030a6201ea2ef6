"""An operation, a dialect and a kernel of one's own."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

import cumae
from cumae.oracle import ANY, GARBAGE, UNTOUCHED, Batch, Case, Inputs, Request
from cumae.properties.dialects import CUMAE, DIALECTS, VLLM, Ints
from cumae.properties.dialects.held import ints
from cumae.properties.operations.binding import binding_of
from cumae.properties.results.verdict import Verdict
from cumae.properties.running.device import prepare

DEVICE = prepare("auto")


class Lens(NamedTuple):
    lens: list[Any]


def lens_after(context_lens: Sequence[int], query_lens: Sequence[int]) -> Lens:
    """The state an engine adds to in place; idle requests keep theirs."""
    pairs = zip(context_lens, query_lens, strict=True)
    return Lens([context + query if query else UNTOUCHED for context, query in pairs])


def held_lens(inputs: Inputs) -> Ints:
    return ints(inputs["context_lens"], "int32", inputs.case.layout.garbage)


LENS = cumae.Operation(
    "lens",
    lens_after,
    (cumae.Output("lens", "int32", "request", "length before plus tokens of the step", before=held_lens),),
    rule="a length grows by the tokens of the step",
)


def verdict_on(function: Any, **more: Any) -> Verdict:
    domain = cumae.Domain(captured=False)
    return cumae.check(function, LENS, domain=domain, examples=30, save_to=None, **more)


def test_an_argument_may_be_input_and_output() -> None:
    def add(query_lens: torch.Tensor, lens: torch.Tensor) -> None:
        lens += query_lens.to(lens.dtype)

    verdict = verdict_on(add, checks=("agrees", "writes_everything", "stays_in_bounds", "ignores_garbage"))
    assert verdict.ok, verdict.failure


@pytest.mark.parametrize("fault", ["forgot", "idle"])
def test_a_wrong_update_in_place_is_seen(fault: str) -> None:
    def add(query_lens: torch.Tensor, lens: torch.Tensor) -> None:
        if fault == "idle":
            lens += torch.where(query_lens > 0, query_lens, 1).to(lens.dtype)

    verdict = verdict_on(add)
    assert verdict.failure is not None
    assert verdict.failure.finding.check == "writes_everything"
    said = "was never written" if fault == "forgot" else "was written and must keep what it held"
    assert verdict.failure.finding.message.endswith(said)


def test_an_operation_and_a_dialect_are_shown_by_their_names() -> None:
    assert repr(cumae.router(ties="any")) == "<Operation grouped_topk>"
    assert repr(VLLM) == "<Dialect vllm>"


@torch.library.custom_op("cumae_tests::positions", mutates_args=("out",))
def positions_op(starts: torch.Tensor, contexts: torch.Tensor, out: torch.Tensor) -> None:
    out.zero_()
    for b, context_len in enumerate(contexts.tolist()):
        start, stop = int(starts[b]), int(starts[b + 1])
        out[start:stop] = torch.arange(context_len, context_len + stop - start, device=out.device)


@pytest.mark.parametrize("shift", [0, 1])
def test_an_operation_of_torch_works_as_a_kernel_does(shift: int) -> None:
    def launch(
        query_start_loc: torch.Tensor, num_computed_tokens: torch.Tensor, positions: torch.Tensor
    ) -> None:
        torch.ops.cumae_tests.positions(query_start_loc, num_computed_tokens + shift, positions)

    domain = cumae.Domain(captured=False)
    verdict = cumae.check(launch, "position_ids", dialect="vllm", domain=domain, examples=20, save_to=None)
    assert verdict.ok == (shift == 0)


@pytest.mark.skipif(DEVICE == "cuda", reason="NumPy reads memory of the CPU only")
@pytest.mark.parametrize("beyond", [0, 1])
def test_a_kernel_behind_dlpack_works_as_one_of_triton_does(beyond: int) -> None:
    def launch(
        query_start_loc: torch.Tensor, num_computed_tokens: torch.Tensor, positions: torch.Tensor
    ) -> None:
        starts, contexts = np.from_dlpack(query_start_loc), np.from_dlpack(num_computed_tokens)
        out = np.from_dlpack(positions)
        out[:] = 0
        for b, context_len in enumerate(contexts):
            out[starts[b] : starts[b + 1]] = range(context_len, context_len + starts[b + 1] - starts[b])
        if beyond and len(out):
            np.lib.stride_tricks.as_strided(out, (len(out) + 1,))[-1] = 0

    verdict = cumae.check(launch, "position_ids", dialect="vllm", examples=20, save_to=None)
    assert verdict.ok == (beyond == 0)
    if verdict.failure is not None:
        assert verdict.failure.finding.check == "stays_in_bounds"


def test_a_case_is_given_as_tensors() -> None:
    case = Case(Batch((Request(2, 1, (5,), "decode"), Request(0, 2, (3,))), 4))
    found = cumae.tensors(case, "vllm", DEVICE)
    assert set(found) == set(VLLM.inputs)
    assert found["block_table"].tolist() == [[5], [3]]
    assert (found["seq_lens"].device.type, found["seq_lens_cpu"].device.type) == (DEVICE, "cpu")
    assert found["block_size"] == 4
    with pytest.raises(ValueError, match="names = 'colour', must be among"):
        cumae.tensors(case, CUMAE, names=["colour"])
    assert GARBAGE not in found["block_table"].tolist()


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
@pytest.mark.parametrize("fault", [0, 1])
def test_an_operation_of_ones_own_works_in_every_dialect(dialect: str, fault: int) -> None:
    mine = DIALECTS[dialect].extend(
        my_lens=lambda case: np.array([r.query_len for r in case.batch.requests], dtype=np.int32),
        my_count=lambda case: len(case.batch.requests),
    )

    def add(my_lens: torch.Tensor, my_count: int, lens: torch.Tensor) -> None:
        lens[:my_count] += my_lens + fault * (my_lens > 0).int()

    verdict = cumae.check(
        add, LENS, dialect=mine, domain=cumae.Domain(captured=False), examples=25, save_to=None
    )
    assert verdict.ok == (fault == 0), verdict.failure
    if verdict.failure is not None:
        assert verdict.failure.finding.message == "`lens[0]` differs from the oracle"


def test_a_shipped_operation_that_a_dialect_has_not_is_named() -> None:
    rule = "operation = 'prefix_interleave', must be an operation of dialect vllm, or your own: "
    with pytest.raises(ValueError, match=f"^{rule}"):
        binding_of(lambda keys: None, "prefix_interleave", "vllm")


def test_the_name_of_a_shipped_operation_is_taken() -> None:
    mine = replace(LENS, name="slot_mapping")
    rule = "must have another name, or the outputs slot_mapping of the shipped operation"
    with pytest.raises(ValueError, match=f"^operation = 'slot_mapping', {rule}$"):
        binding_of(lambda lens: None, mine, "vllm")


def test_everything_that_is_offered_is_there() -> None:
    for name in cumae.__all__:
        assert getattr(cumae, name) is not None


class FirstSlots(NamedTuple):
    first_slots: list[Any]


def first_slots(block_table: Any, row_index: Any, block_size: int, num_requests: int) -> FirstSlots:
    """The first slot of each request, anything without a block."""
    rows = [block_table[row] if b < num_requests and row >= 0 else [] for b, row in enumerate(row_index)]
    return FirstSlots([ANY if not row or row[0] is GARBAGE else row[0] * block_size for row in rows])


@pytest.mark.parametrize("dtype", ["int64", "int32"])
@pytest.mark.parametrize(("through", "ok"), [(torch.int64, True), (torch.float32, False)])
def test_its_block_ids_grow_until_the_output_holds_no_slot(
    through: torch.dtype, ok: bool, dtype: str
) -> None:
    def launch(
        block_table: Any, row_index: Any, block_size: int, num_requests: int, first_slots: Any
    ) -> None:
        if block_table.numel():
            ids = block_table[row_index[:num_requests].long(), 0].to(through).long()
            first_slots[:num_requests] = ids * block_size

    domain = cumae.Domain(captured=False, rowless_requests=False, missing_blocks=False, block_sizes=(16,))
    own = cumae.Operation("first_slots", first_slots, (cumae.Output("first_slots", dtype, "request"),))
    verdict = cumae.check(launch, own, domain=domain, examples=20, save_to=None)
    assert verdict.ok == (ok or dtype == "int32"), verdict.failure
    if verdict.failure is not None:
        assert verdict.failure.finding.check == "survives_large_ids"


class Places(NamedTuple):
    places: list[Any]


def test_cases_of_ones_own_operation_have_as_many_rows_as_tensors_of_sglang() -> None:
    def padded(position_ids: Sequence[int], num_tokens: int) -> Places:
        return Places([*position_ids[:num_tokens], *[ANY] * (len(position_ids) - num_tokens)])

    own = cumae.Operation("places", padded, (cumae.Output("places", "int64", "token"),))
    verdict = cumae.check(
        lambda positions: positions.clone(), own, dialect="sglang", examples=20, save_to=None
    )
    assert verdict.ok, verdict.failure


def test_what_is_returned_may_not_be_that_of_another_step() -> None:
    kept: list[torch.Tensor] = []

    class Longest(NamedTuple):
        longest: list[int]

    def longest(query_lens: torch.Tensor) -> torch.Tensor:
        if not kept or kept[0] is not query_lens:
            kept[:] = [query_lens, query_lens.max()[None].int()]
        return kept[1].clone()

    own = cumae.Operation(
        "longest", lambda query_lens: Longest([max(query_lens)]), (cumae.Output("longest", "int32", "step"),)
    )
    domain = cumae.Domain(min_requests=1, padding="none", captured=False)
    verdict = cumae.check(longest, own, domain=domain, examples=60, save_to=None)
    assert verdict.failure is not None
    assert verdict.failure.finding.check == "forgets_history"
