"""A domain's promises hold for every case that is drawn, walked, reduced or shipped."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest
import torch

import cumae
from cumae.oracle import Batch, Case, Layout, Request
from cumae.oracle.model.rules import INT32_MAX
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.promises import largest_slot
from cumae.properties.cases.reducer import reduce_case
from cumae.properties.cases.seeded import large_case, seeded_cases
from cumae.properties.cases.values import misses_blocks
from cumae.properties.checks import Trial
from cumae.properties.operations.binding import binding_of
from cumae.properties.operations.targets import load_function
from cumae.properties.running.device import prepare
from cumae.properties.search.first_cases import fixture_cases
from cumae.properties.state.walks import walk
from cumae.properties.tests.functions.promised import positions_and_zeros

DEVICE = prepare("auto")
SLOTS = "cumae.gpu_impl:write_slot_mapping"


def _padded(case: Case) -> int:
    layout = case.layout
    return layout.num_padding_tokens + layout.num_padding_requests + layout.num_padding_slots


def _is_padded_apart(case: Case) -> bool:
    lens = {request.query_len for request in case.batch.requests}
    each = max(1, *lens) if len(lens) == 1 else 1
    return (
        case.layout.num_padding_tokens != each * case.layout.num_padding_requests
        or case.layout.num_padding_slots > 0
    )


def _beyond(case: Case) -> bool:
    return any(largest_slot(r, case.batch.block_size) > INT32_MAX for r in case.batch.requests)


def _rows_of(case: Case) -> tuple[int, int]:
    return case.options.rows.kv_lora_rank, case.options.rows.qk_rope_head_dim


PROMISES: dict[str, tuple[Domain, str, Callable[[Case], bool]]] = {
    "slots below 2^31": (Domain(large_slots=False), "slots past 2^31", _beyond),
    "large blocks, slots below 2^31": (
        Domain(large_slots=False, block_sizes=(4096,), max_context_len=2**20),
        "slots past 2^31",
        _beyond,
    ),
    "no padding": (Domain(padding="none"), "padding", lambda case: _padded(case) > 0),
    "padded together": (Domain(padded_together=True), " padded ", _is_padded_apart),
    "a token in each step": (Domain(min_tokens=1), "0 tokens", lambda case: case.batch.num_tokens < 1),
    "a token of few requests": (
        Domain(min_tokens=1, max_requests=1, max_query_len=1),
        "0 tokens",
        lambda case: case.batch.num_tokens < 1,
    ),
    "many tokens": (Domain(min_tokens=70), "tokens", lambda case: case.batch.num_tokens < 70),
    "a row for each request": (
        Domain(rowless_requests=False),
        "a request without a row",
        lambda case: -1 in (case.layout.row_index or ()),
    ),
    "a block for each token": (Domain(missing_blocks=False), "a missing block", misses_blocks),
}


@pytest.mark.parametrize("promise", PROMISES)
def test_no_drawn_case_goes_beyond_a_promise(promise: str) -> None:
    domain, _, goes_beyond = PROMISES[promise]
    drawn = list(islice(seeded_cases(7, domain), 400))
    assert not any(map(goes_beyond, drawn))
    assert {domain.why_not(case) for case in drawn} == {None}
    assert domain.max_requests == 1 or len({len(case.batch.requests) for case in drawn}) > 1
    large = large_case(3, domain, ("row_index",), num_requests=300, num_tokens=3000)
    assert domain.max_requests == 1 or not goes_beyond(large)


@pytest.mark.parametrize("promise", [p for p in PROMISES if p != "many tokens"])
def test_no_step_of_an_engine_goes_beyond_a_promise(promise: str) -> None:
    domain, _, goes_beyond = PROMISES[promise]
    binding = binding_of(load_function(SLOTS), "slot_mapping", domain=domain)
    for number in range(12):
        steps = list(islice(walk(binding, number), 12))
        assert not any(map(goes_beyond, steps))


@pytest.mark.parametrize("promise", PROMISES)
def test_a_case_beyond_a_promise_is_no_fixture_and_says_why(promise: str) -> None:
    domain, why, goes_beyond = PROMISES[promise]
    every = fixture_cases(binding_of(load_function(SLOTS), "slot_mapping"))
    kept = fixture_cases(binding_of(load_function(SLOTS), "slot_mapping", domain=domain))
    assert any(map(goes_beyond, every)) and not any(map(goes_beyond, kept))
    one = next(case for case in every if goes_beyond(case))
    sizes = replace(domain, block_sizes=(one.batch.block_size,), max_query_len=2**20, max_requests=99)
    assert why in (sizes.why_not(one) or "")


def test_steps_that_are_padded_together_are_padded_and_reduced_so() -> None:
    domain = Domain(padded_together=True)
    drawn = [case for case in islice(seeded_cases(5, domain), 200) if case.layout.num_padding_tokens > 2]
    assert len(drawn) > 20
    assert any(case.layout.num_padding_tokens > case.layout.num_padding_requests for case in drawn)
    steps = islice(walk(binding_of(load_function(SLOTS), "slot_mapping", domain=domain), 3), 12)
    assert any(step.layout.num_padding_tokens for step in steps)

    def still_fails(tried: Case) -> bool:
        return domain.why_not(tried) is None and tried.layout.num_padding_requests > 0

    assert all(reduce_case(case, still_fails).num_requests_padded == 1 for case in drawn[:3])


@pytest.mark.parametrize("promise", ["no padding", "a token in each step", "a row for each request"])
def test_a_failing_case_is_reduced_inside_its_promises(promise: str) -> None:
    domain, _, goes_beyond = PROMISES[promise]
    case = next(c for c in seeded_cases(3, domain) if len(c.batch.requests) > 3 and c.batch.num_tokens > 2)
    found = reduce_case(case, lambda tried: domain.why_not(tried) is None)
    assert not goes_beyond(found)
    assert found.batch.num_tokens == domain.min_tokens


def _narrow_slots(
    token_to_request: torch.Tensor, position_ids: torch.Tensor, block_table: torch.Tensor,
    row_index: torch.Tensor, block_size: int, slot_mapping: torch.Tensor,
) -> None:  # fmt: skip
    """Computes in 32 bits."""
    slot_mapping.fill_(-1)
    live = torch.nonzero(token_to_request >= 0).flatten()
    rows, position = row_index[token_to_request[live].long()].long(), position_ids[live].long()
    is_known = (rows >= 0) & (position // block_size < block_table.shape[1])
    live, rows, position = live[is_known], rows[is_known], position[is_known]
    blocks = block_table[rows, position // block_size].int()
    slots = (blocks * block_size).int() + (position % block_size).int()
    slot_mapping[live] = torch.where(blocks >= 0, slots, -1).to(slot_mapping.dtype)


def test_slots_of_32_bits_are_wrong_only_where_larger_ones_are_promised() -> None:
    def verdict(**more: Any) -> cumae.Verdict:
        domain = Domain(captured=False, strided=False, index_dtype=("int32",), **more)
        return cumae.check(_narrow_slots, "slot_mapping", domain=domain, examples=25, save_to=None)

    wrong = verdict()
    assert wrong.failure is not None and wrong.failure.finding.check == "survives_large_ids"
    right = verdict(large_slots=False)
    assert right.ok, right.failure


def test_ids_are_raised_as_far_as_slots_are_promised() -> None:
    case = Case(Batch((Request(3, 2, (4, 1)),), 4))
    domain = Domain(large_slots=False)
    binding = binding_of(_narrow_slots, "slot_mapping", domain=domain)
    slots = [largest_slot(b.case.batch.requests[0], 4) for b, _ in Trial(binding, case, DEVICE).enlarged()]
    assert slots and max(slots) == INT32_MAX


def test_rows_are_of_the_widths_promised_and_no_other() -> None:
    domain = Domain(latent_dims=((64, 16),), row_format=("bf16",))
    target = load_function("cumae.gpu_impl:write_cache")
    binding = binding_of(target, "cache_write", domain=domain)

    def drawn() -> Iterator[Case]:
        yield from islice(seeded_cases(1, domain, binding.features), 200)
        yield from fixture_cases(binding)
        for number in range(5):
            yield from islice(walk(binding, number), 5)

    assert {_rows_of(case) for case in drawn()} == {(64, 16)}
    assert domain.why_not(Case(Batch((), 4))) == "latent rows of 512 + 64"
    other = binding_of(load_function(SLOTS), "slot_mapping", domain=domain)
    assert other.why_not(Case(Batch((), 4))) is None


@pytest.mark.parametrize(
    ("field", "value", "rule"),
    [
        ("padding", "zero", "be one of 'written', 'untouched', 'any', 'none'"),
        ("min_tokens", -1, "be >= 0"),
        ("large_slots", 1, "be true or false"),
        ("rowless_requests", None, "be true or false"),
        ("missing_blocks", None, "be true or false"),
    ],
)
def test_a_bad_promise_names_field_value_and_rule(field: str, value: Any, rule: str) -> None:
    with pytest.raises(ValueError, match=rf"{field} = .*, must {rule}"):
        Domain(**{field: value})


def test_promises_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match="min_tokens = 5, must be <= 4, the most tokens of a step"):
        Domain(min_tokens=5, max_requests=2, max_query_len=2)
    with pytest.raises(ValueError, match=r"block_sizes\[0\] = 8192, must be <= 4096 without large slots"):
        Domain(block_sizes=(8192,), large_slots=False)


class Fresh:
    """Returns tensors of its own at each step."""

    def __init__(self) -> None:
        self.kept: list[torch.Tensor] = []

    def __call__(
        self, token_to_request: torch.Tensor, cu_seqlens_q: torch.Tensor, context_lens: torch.Tensor
    ) -> torch.Tensor:
        self.kept.append(torch.empty(len(token_to_request), dtype=torch.int64, device=cu_seqlens_q.device))
        positions_and_zeros(token_to_request, cu_seqlens_q, context_lens, self.kept[-1])
        return self.kept[-1]


@pytest.mark.parametrize("captured", [True, False])
def test_only_what_may_be_captured_promises_addresses(captured: bool) -> None:
    how: dict[str, Any] = {"checks": ["forgets_history"], "examples": 5, "save_to": None}
    verdict = cumae.check(Fresh, "position_ids", domain=Domain(captured=captured), **how)
    assert verdict.ok != captured
    if verdict.failure is not None:
        assert "another address" in verdict.failure.finding.message


def test_the_tables_of_sglang_are_as_wide_as_every_length() -> None:
    """A padded request has one token, and the drafts of a verify step."""
    requests = (Request(1, 2, (4, 5), "decode"), Request(1, 2, (7, 8), "decode"))
    for live in (requests, ()):
        case = Case(Batch(live, 2), Layout(num_padding_requests=2))
        found = cumae.tensors(case, "sglang", DEVICE)
        longest = int(found["cache_seqlens_int32"].max())
        assert longest == (3 if live else 1)
        assert found["req_to_token"].shape[1] == found["page_table_1"].shape[1] == longest
        assert found["page_table"].shape[1] == -(-longest // 2)
        assert not found["req_to_token"][0].any() and not found["page_table_1"][-1].any()


@pytest.mark.parametrize("block_size", [1, 4, 512])
def test_the_last_page_of_a_table_of_sglang_begins_inside_the_row_of_the_pool(block_size: int) -> None:
    requests = (Request(5, 1, (4, 5, 6, 7, 8, 9), "decode"),)
    case = Case(Batch(requests, block_size), Layout(num_spare_columns=3))
    found = cumae.tensors(case, "sglang", DEVICE)
    last = (int(found["max_seq_pages"]) - 1) * block_size
    assert last < found["req_to_token"].shape[1]
    assert int(found["max_seq_pages"]) > -(-6 // block_size)


def test_no_live_request_stands_in_the_row_that_sglang_gives_nobody() -> None:
    binding = binding_of(lambda req_to_token, req_pool_indices, out_cache_loc: None, "slot_mapping", "sglang")
    case = Case(Batch((Request(0, 1, (3,)),), 4), Layout(row_index=(-1,)))
    assert binding.why_not(case) == "a request without a row"
    drawn = islice(seeded_cases(2, binding.domain, binding.features), 300)
    rows = [case.layout.row_index for case in drawn if case.layout.row_index is not None]
    assert len(rows) > 50 and not any(-1 in one for one in rows)


@pytest.mark.parametrize("name", ["latent_dims", "router_shapes"])
@pytest.mark.parametrize("value", [(), [], 64])
def test_dimensions_are_one_or_more_or_all(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"{name} = .*, must be None or a non-empty tuple"):
        Domain(**{name: value})


def test_several_values_of_an_option_that_the_operation_has_not_are_refused() -> None:
    def positions(world: int, num_tokens_padded: int, position_ids: torch.Tensor) -> None:
        raise AssertionError("not called")

    message = r"world = \(1, 2\), must be one value: position_ids has no such option"
    with pytest.raises(ValueError, match=message):
        binding_of(positions, "position_ids", domain=Domain(world=(1, 2)))
    assert binding_of(positions, "position_ids", domain=Domain(world=(2,))).domain.values["world"] == (2,)
