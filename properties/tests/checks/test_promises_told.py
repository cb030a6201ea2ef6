"""A report names the promises that would leave its case out."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch

import cumae
from cumae.oracle import Batch, Case, Layout, Options, Request
from cumae.properties.cases.exclusions import left_out_by
from cumae.properties.checks import CHECKS
from cumae.properties.operations.binding import binding_of
from cumae.properties.operations.seen import seen_by
from cumae.properties.running.device import current
from cumae.properties.search.budget import Budget
from cumae.properties.search.loop import search
from cumae.properties.tests.functions.right_for_vllm import slots_by_virtual_block


def test_a_report_names_the_promises_that_leave_its_case_out() -> None:
    def one_row_each(context_lens: torch.Tensor, position_ids: torch.Tensor) -> None:
        if len(context_lens) != len(position_ids):
            raise IndexError
        position_ids.copy_(context_lens)

    one_each = {"phases": ("decode",), "max_query_len": 1, "empty_requests": False, "min_requests": 1}
    decodes = cumae.Domain(**one_each, captured=False)
    verdict = cumae.check(one_row_each, "position_ids", domain=decodes, examples=30, save_to=None)
    told = cumae.explain(verdict)
    assert "  if no engine makes such a call: promise Domain(padded_together=True) or " in told, told
    together = decodes.having(padded_together=True)
    assert cumae.check(one_row_each, "position_ids", domain=together, examples=30, save_to=None).ok


def test_a_report_names_the_order_that_leaves_its_case_out() -> None:
    def decodes_then_prefills(
        context_lens: torch.Tensor,
        query_lens: torch.Tensor,
        is_prefill: torch.Tensor,
        num_decodes: int,
        num_requests: int,
        position_ids: torch.Tensor,
    ) -> None:
        decoding = (~is_prefill[:num_requests].bool()).nonzero().flatten()
        prefilling = is_prefill[:num_requests].bool().nonzero().flatten()
        assert len(decoding) == num_decodes
        lens = [(int(context_lens[b]), int(query_lens[b])) for b in (*decoding, *prefilling)]
        found = [position for start, count in lens for position in range(start, start + count)]
        position_ids.zero_()
        position_ids[: len(found)] = torch.tensor(found)

    domain = cumae.Domain(captured=False, all_but=("never_synchronises",))
    verdict = cumae.check(decodes_then_prefills, "position_ids", domain=domain, save_to=None)
    told = cumae.explain(verdict)
    assert "  if no engine makes such a call: promise Domain(order='decodes_first')\n" in told, told
    sorts = domain.having(order="decodes_first")
    assert cumae.check(decodes_then_prefills, "position_ids", domain=sorts, examples=60, save_to=None).ok


def test_a_report_says_of_a_promise_that_others_fail_too() -> None:
    def raises(position_ids: torch.Tensor) -> None:
        raise IndexError

    told = cumae.explain(cumae.check(raises, "position_ids", examples=5, save_to=None))
    assert "if no engine" not in told, told  # it fails for one request of three tokens, too

    def raises_for_none_and_for_padding(
        num_requests: int, context_lens: torch.Tensor, query_lens: torch.Tensor, position_ids: torch.Tensor
    ) -> None:
        if num_requests == 0 or int(query_lens.sum()) < position_ids.numel():
            raise IndexError
        lens = list(zip(context_lens.tolist(), query_lens.tolist(), strict=True))
        position_ids.copy_(torch.cat([torch.arange(start, start + count) for start, count in lens]))

    domain = cumae.Domain(captured=False)
    verdict = cumae.check(raises_for_none_and_for_padding, "position_ids", domain=domain, save_to=None)
    told = cumae.explain(verdict)
    none = "Domain(min_requests=1) or Domain(min_tokens=1)"
    assert f"promise {none}, which is not enough: other cases fail, too\n" in told, told

    def raises_for_none(num_requests: int, query_lens: torch.Tensor) -> torch.Tensor:
        if num_requests == 0:
            raise IndexError
        return torch.zeros_like(query_lens, dtype=torch.int64)

    domain = cumae.Domain(padding="none", max_context_len=0, max_query_len=1, empty_requests=False)
    verdict = cumae.check(raises_for_none, "position_ids", domain=domain, examples=5, save_to=None)
    told = cumae.explain(verdict)
    assert f"promise {none}\n" in told, told


def test_another_promise_than_the_one_that_was_made_is_not_offered() -> None:
    mixed = Case(Batch((Request(3, 1, (0,), "decode"), Request(0, 2, (1,))), 16))
    assert left_out_by(mixed, cumae.Domain()) == "Domain(order='prefills_first')"
    assert left_out_by(mixed, cumae.Domain(order="decodes_first")) == ""
    on_ranks = Case(Batch((Request(3, 1, (70_000,), "decode"),), 16, world=2))
    assert left_out_by(on_ranks, cumae.Domain()) == "Domain(world=(1,)) or Domain(max_block_id=65535)"
    far = Case(Batch((Request(3, 1, (2**27,), "decode"),), 16))
    assert left_out_by(far, cumae.Domain()) == "Domain(large_slots=False) or Domain(max_block_id=65535)"
    short = Case(Batch((Request(0, 1, (0,)),), 16), Layout(page_slack=-1))
    assert left_out_by(short, cumae.Domain()) == "Domain(page_slack=(0,))"


def positions(context_lens: torch.Tensor, query_lens: torch.Tensor, num_requests: int) -> torch.Tensor:
    lens = zip(context_lens[:num_requests].tolist(), query_lens[:num_requests].tolist(), strict=True)
    rows = [torch.arange(start, start + count) for start, count in lens]
    return torch.cat([torch.empty(0, dtype=torch.int64), *rows])


UNPADDED = cumae.Domain(captured=False, padding="none", all_but=("never_synchronises",))


def test_a_promise_that_leaves_only_the_smallest_case_out_is_not_enough() -> None:
    """The smallest six requests compute nothing; drawn ones that all compute something fail, too."""

    def wrong_for_six(
        context_lens: torch.Tensor, query_lens: torch.Tensor, num_requests: int
    ) -> torch.Tensor:
        return positions(context_lens, query_lens, num_requests) + (num_requests == 6)

    verdict = cumae.check(wrong_for_six, "position_ids", domain=UNPADDED, examples=60, save_to=None)
    assert verdict.failure is not None and len(verdict.failure.case.batch.requests) == 6
    told = "Domain(empty_requests=False), which is not enough: other cases fail, too"
    assert verdict.failure.finding.left_out_by == told


def test_scales_and_selections_are_offered() -> None:
    heads = Options.of(head_format="fp8", key_scale_thousandths=15)
    scaled = Case(Batch((Request(0, 1, (0,)),), 16), options=heads)
    assert left_out_by(scaled, cumae.Domain()) == "Domain(key_scale_thousandths=(1000, 500, 250, 125))"
    beyond = Case(
        Batch((Request(0, 1, (0,)),), 16), options=Options.of(select_beyond=True, selects_fewer=True)
    )
    told = "Domain(select_beyond=(False,)) or Domain(selects_fewer=(False,))"
    assert left_out_by(beyond, cumae.Domain()) == told


def test_a_step_without_tokens_is_offered_where_only_it_has_another_dtype() -> None:
    def short_if_empty(
        context_lens: torch.Tensor, query_lens: torch.Tensor, num_requests: int
    ) -> torch.Tensor:
        found = positions(context_lens, query_lens, num_requests)
        return found if num_requests else found.int()

    verdict = cumae.check(short_if_empty, "position_ids", domain=UNPADDED, examples=20, save_to=None)
    assert verdict.failure is not None
    told = "Domain(min_requests=1) or Domain(min_tokens=1)"
    assert verdict.failure.finding.left_out_by == told, cumae.explain(verdict)


def offered(function: Callable[..., torch.Tensor]) -> str:
    """Return the promises that a report of wrong positions offers."""
    domain = UNPADDED.having(empty_requests=False, min_requests=1)
    verdict = cumae.check(
        function, "position_ids", domain=domain, checks=["agrees"], examples=40, save_to=None
    )
    assert verdict.failure is not None
    return verdict.failure.finding.left_out_by


def test_whole_sequences_are_offered_where_each_failing_case_has_cached_tokens() -> None:
    def of_packed_sequences(query_lens: torch.Tensor, num_requests: int) -> torch.Tensor:
        return torch.cat([torch.arange(int(count)) for count in query_lens[:num_requests]])

    assert offered(of_packed_sequences) == "Domain(max_context_len=0)"

    def is_one_too_large(query_lens: torch.Tensor, num_requests: int) -> torch.Tensor:
        return of_packed_sequences(query_lens, num_requests) + 1

    assert offered(is_one_too_large) == ""


def test_block_sizes_are_offered_only_where_the_function_sees_them() -> None:
    case = Case(Batch((Request(0, 1, (0,)),), 3))
    assert left_out_by(case, cumae.Domain()).startswith("Domain(block_sizes=")
    assert left_out_by(case, cumae.Domain(), seen=()) == ""

    def of_lens(query_lens: torch.Tensor) -> None: ...
    def of_blocks(query_lens: torch.Tensor, block_size: int) -> None: ...
    def of_pages(block_table: torch.Tensor) -> None: ...

    sees = [seen_by(binding_of(function, "slot_mapping")) for function in (of_lens, of_blocks, of_pages)]
    assert sees == [set(), {"block_size"}, {"block_size"}]


def test_a_function_that_keeps_answers_on_purpose_is_offered_a_way_out() -> None:
    kept: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def remembered(query_lens: torch.Tensor, context_lens: torch.Tensor, num_requests: int) -> torch.Tensor:
        if id(query_lens) not in kept:
            kept[id(query_lens)] = query_lens, positions(context_lens, query_lens, num_requests)
        return kept[id(query_lens)][1]

    how: dict[str, Any] = {"checks": ["forgets_history"], "examples": 20, "save_to": None}
    told = cumae.explain(cumae.check(remembered, "position_ids", domain=UNPADDED, **how))
    line = "  if it keeps answers on purpose: promise Domain(all_but=('forgets_history',))\n"
    assert line in told, told


def test_a_plain_case_that_fails_for_another_reason_keeps_the_promise_of_an_error() -> None:
    def raises_for_padding(
        context_lens: torch.Tensor, query_lens: torch.Tensor, num_requests: int, position_ids: torch.Tensor
    ) -> None:
        if int(query_lens.sum()) < position_ids.numel():
            raise IndexError
        position_ids.copy_(positions(context_lens, query_lens, num_requests) + int(query_lens.sum() > 2))

    padded = Case(Batch((Request(0, 2, (0,)),), 16), Layout(num_padding_tokens=1))
    binding = binding_of(raises_for_padding, "position_ids", domain=cumae.Domain(captured=False))
    verdict = search(binding, current(), Budget(examples=0), first=[padded])
    assert verdict.failure is not None and "IndexError" in verdict.failure.finding.message
    told = verdict.failure.finding.left_out_by
    assert "Domain(padding='none')" in told and told.endswith("not enough: other cases fail, too")


def write_densely(kv_c: torch.Tensor, k_pe: torch.Tensor, kv_cache: torch.Tensor, slot_mapping: Any) -> None:
    """Write to a cache as if its rows had no gaps; raises for rows without a rotary part."""
    if k_pe.shape[1] == 0:
        raise IndexError
    blocks, size, width = kv_cache.shape
    cache, slots = kv_cache.as_strided((blocks * size, width), (width, 1)), slot_mapping.long()
    rows = torch.cat([kv_c, k_pe], dim=1)[: len(slots)]
    live = (slots >= 0) & (slots < len(cache))  # an index behind it would end the context of a GPU
    cache[slots[live]] = rows[live]


def test_a_cache_without_gaps_is_offered_although_other_cases_fail_in_another_way() -> None:
    domain = cumae.Domain(row_format=("bf16",), captured=False, all_but=("never_synchronises",))
    how: dict[str, Any] = {"dialect": "vllm", "domain": domain, "save_to": None}
    how |= {"checks": [name for name in CHECKS if name.endswith("strides")], "examples": 60}
    verdict = cumae.check(write_densely, "cache_write", **how)
    assert verdict.failure is not None
    told = cumae.explain(verdict)
    assert verdict.failure.finding.left_out_by == "Domain(strided=False)", told


def test_block_sizes_of_engines_are_offered_if_only_others_fail() -> None:
    def wrong_in_small_blocks(
        req_id_per_token: torch.Tensor,
        positions: torch.Tensor,
        block_table: torch.Tensor,
        block_size: int,
        num_tokens: int,
    ) -> torch.Tensor:
        request, position = req_id_per_token[:num_tokens].long(), positions[:num_tokens]
        blocks = block_table[request, position // block_size].long()
        return blocks * block_size + position % block_size + (block_size < 16)

    kept = {"missing_blocks": False, "rowless_requests": False, "world": (1,), "num_padding_slots": (0,)}
    domain = UNPADDED.having(min_tokens=1, **kept)
    how: dict[str, Any] = {"dialect": "vllm", "save_to": None, "checks": ("agrees",), "examples": 60}
    verdict = cumae.check(wrong_in_small_blocks, "slot_mapping", domain=domain, **how)
    assert verdict.failure is not None and verdict.failure.case.batch.block_size == 1
    told = cumae.explain(verdict)
    assert verdict.failure.finding.left_out_by == "Domain(block_sizes=(16, 32, 64, 128, 256))", told
    own = domain.having(block_sizes=(16, 32, 64, 128, 256))
    assert cumae.check(wrong_in_small_blocks, "slot_mapping", domain=own, **how).ok


def test_block_sizes_are_offered_although_the_options_of_the_case_fit_no_other() -> None:
    @wraps(slots_by_virtual_block)
    def wrong_in_runs_of_41(**given: Any) -> None:
        slots_by_virtual_block(**given)
        given["slot_mapping"] += given["cp_kv_cache_interleave_size"] == 41

    step = Batch((Request(40, 2, (1,)),), 656, world=8)
    case = Case(step, options=Options().having(rank=1, interleave=41))
    domain = UNPADDED.having(world=(2, 4, 8))
    binding = binding_of(wrong_in_runs_of_41, "slot_mapping", "vllm", domain)
    verdict = search(binding, current(), Budget(examples=0), first=[case], checks=["agrees"], save_to=None)
    assert verdict.failure is not None and verdict.failure.case.options.parallel.interleave == 41
    assert "block_sizes=(1, 2, 4, 8, 16" in verdict.failure.finding.left_out_by
