"""Facts about the tour of a search: sizes that the function names, and production sizes."""

from collections.abc import Callable
from math import inf
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from cumae.fixtures.correct.cumae import slot_mapping
from cumae.properties.cases.domain import Domain
from cumae.properties.operations.binding import binding_of
from cumae.properties.running.device import prepare
from cumae.properties.search.budget import Budget
from cumae.properties.search.direct import check
from cumae.properties.search.loop import search
from cumae.properties.search.tour import LEAST, SHARE, work_of_tour

DEVICE = prepare("auto")
HIDDEN = int("16384")
Function = Callable[..., Any]


def _positions(
    cu_seqlens_q: torch.Tensor, context_lens: torch.Tensor, position_ids: torch.Tensor
) -> torch.Tensor:
    lens = (cu_seqlens_q[1:] - cu_seqlens_q[:-1]).long()[: len(context_lens)]
    starts = torch.repeat_interleave(context_lens.long() - cu_seqlens_q[: len(context_lens)], lens)
    position_ids.zero_()
    position_ids[: len(starts)] = starts + torch.arange(len(starts), device=starts.device)
    return lens


def wrong_beyond_a_hidden_length(
    cu_seqlens_q: torch.Tensor, context_lens: torch.Tensor, position_ids: torch.Tensor
) -> None:
    lens = _positions(cu_seqlens_q, context_lens, position_ids)
    if len(lens) and int(lens.max()) > 8 * HIDDEN:
        position_ids[-1] = 7


def wrong_beyond_a_hidden_count(
    cu_seqlens_q: torch.Tensor, context_lens: torch.Tensor, position_ids: torch.Tensor
) -> None:
    lens = _positions(cu_seqlens_q, context_lens, position_ids)
    if len(lens) > HIDDEN:
        position_ids[0] += 1


def wrong_at_a_named_number_of_tokens(
    cu_seqlens_q: torch.Tensor, context_lens: torch.Tensor, position_ids: torch.Tensor
) -> None:
    lens = _positions(cu_seqlens_q, context_lens, position_ids)
    if int(lens.sum()) == 1531:
        position_ids[0] += 1


def wrong_at_a_named_number_of_padded_rows(
    cu_seqlens_q: torch.Tensor, context_lens: torch.Tensor, position_ids: torch.Tensor
) -> None:
    lens = _positions(cu_seqlens_q, context_lens, position_ids)
    if len(position_ids) - int(lens.sum()) > 509:
        position_ids[-1] = 1


@pytest.mark.parametrize(
    "function",
    [
        wrong_beyond_a_hidden_length,
        wrong_beyond_a_hidden_count,
        wrong_at_a_named_number_of_tokens,
        wrong_at_a_named_number_of_padded_rows,
    ],
)
def test_the_default_search_finds_what_is_wrong_beyond_a_size(function: Function) -> None:
    verdict = check(function, "position_ids", domain=Domain(captured=False), save_to=None)
    assert verdict.failure is not None
    assert verdict.failure.finding.check == "agrees"


MULTIPLE = 4096


def wrong_at_whole_tiles_of_requests(
    cu_seqlens_q: torch.Tensor, context_lens: torch.Tensor, position_ids: torch.Tensor
) -> None:
    lens = _positions(cu_seqlens_q, context_lens, position_ids)
    if len(lens) and len(lens) % MULTIPLE == 0:
        position_ids[0] += 1


def wrong_behind_idle_requests(
    cu_seqlens_q: torch.Tensor, context_lens: torch.Tensor, position_ids: torch.Tensor
) -> None:
    lens = _positions(cu_seqlens_q, context_lens, position_ids)
    if len(lens) > 250 and not lens[:250].any() and lens.any():
        position_ids[0] += 1


def wrong_for_decodes_alike_on_average(
    cu_seqlens_q: torch.Tensor, context_lens: torch.Tensor, position_ids: torch.Tensor
) -> None:
    lens = _positions(cu_seqlens_q, context_lens, position_ids)
    busy = lens[lens > 0]
    each = int(lens[0]) if len(lens) >= 8 else 1
    if each > 1 and each * len(busy) == int(lens.sum()) and int(lens[-1]) == each:
        steps = torch.arange(each, dtype=position_ids.dtype)
        position_ids[: int(lens.sum())] = (context_lens[: len(busy), None] + steps).flatten()


@pytest.mark.parametrize(
    "function",
    [wrong_at_whole_tiles_of_requests, wrong_behind_idle_requests, wrong_for_decodes_alike_on_average],
)
def test_the_default_search_finds_what_is_wrong_for_a_kind_of_step(function: Function) -> None:
    verdict = check(function, "position_ids", domain=Domain(captured=False), save_to=None)
    assert verdict.failure is not None
    assert verdict.failure.finding.check == "agrees"


def test_a_tour_meets_sums_that_fp32_does_not_count_and_long_contexts_in_odd_blocks() -> None:
    sums, longest = [0], {24: 0, 1056: 0}

    def positions(cu_seqlens_q: torch.Tensor, context_lens: torch.Tensor, position_ids: torch.Tensor) -> None:
        _positions(cu_seqlens_q, context_lens, position_ids)
        sums.append(int(context_lens.sum()))

    def slots(
        token_to_request: torch.Tensor,
        position_ids: torch.Tensor,
        block_table: torch.Tensor,
        row_index: torch.Tensor,
        kernel_block_size: int,
        num_slots: int,
    ) -> torch.Tensor:
        if kernel_block_size in longest and position_ids.numel():
            longest[kernel_block_size] = max(longest[kernel_block_size], int(position_ids.max()))
        step = token_to_request, position_ids, row_index, block_table
        return slot_mapping(*step, kernel_block_size, num_slots, 1, 0, 1)

    domain = Domain(captured=False, all_but=("never_synchronises",))
    assert check(positions, "position_ids", domain=domain, save_to=None)
    assert check(slots, "slot_mapping", domain=domain.having(world=(1,)), save_to=None)
    assert max(sums) > 2**24
    assert min(longest.values()) > 2**15


def wrong_beyond_a_hidden_length_if_wide(
    cu_seqlens_q: torch.Tensor, context_lens: torch.Tensor, position_ids: torch.Tensor
) -> None:
    lens = _positions(cu_seqlens_q, context_lens, position_ids)
    if context_lens.dtype == torch.int64 and len(lens) and int(lens.max()) > 2 * HIDDEN:
        position_ids[-1] = 7


def test_the_sizes_of_a_tour_meet_both_widths_of_lengths() -> None:
    domain = Domain(captured=False)  # it reads a maximum on the host
    verdict = check(wrong_beyond_a_hidden_length_if_wide, "position_ids", domain=domain, save_to=None)
    assert verdict.failure is not None
    assert verdict.failure.finding.check == "accepts_index_types"


@triton.jit
def _one_tile(
    cu_seqlens_q: tl.tensor, context_lens: tl.tensor, position_ids: tl.tensor, TILE: tl.constexpr
) -> None:
    request = tl.program_id(0)
    start = tl.load(cu_seqlens_q + request)
    count = tl.load(cu_seqlens_q + request + 1) - start
    o_row = tl.arange(0, TILE)
    tl.store(position_ids + start + o_row, tl.load(context_lens + request) + o_row, mask=o_row < count)


def one_tile_of_2048(
    cu_seqlens_q: torch.Tensor, context_lens: torch.Tensor, position_ids: torch.Tensor
) -> None:
    position_ids.zero_()
    if len(context_lens):
        _one_tile[(len(context_lens),)](cu_seqlens_q, context_lens, position_ids, TILE=2048)


def one_tile_of_4096(
    cu_seqlens_q: torch.Tensor, context_lens: torch.Tensor, position_ids: torch.Tensor
) -> None:
    position_ids.zero_()
    if len(context_lens):
        _one_tile[(len(context_lens),)](cu_seqlens_q, context_lens, position_ids, TILE=4096)


@pytest.mark.parametrize("seed", range(7))
def test_one_check_of_the_quick_profile_finds_one_tile_without_a_loop(seed: int) -> None:
    how: dict[str, Any] = {"checks": ["agrees"], "examples": 40, "save_to": None}
    verdict = check(one_tile_of_2048, "position_ids", seed=seed, **how)
    assert not verdict.ok


@pytest.mark.skipif(DEVICE == "cuda", reason="ranges inside a kernel show in the interpreter")
def test_a_verdict_tells_the_sizes_that_a_launch_shows_and_the_largest_compared() -> None:
    def two_tiles(cu_seqlens_q: torch.Tensor, context_lens: torch.Tensor, position_ids: torch.Tensor) -> None:
        _positions(cu_seqlens_q, context_lens, position_ids)
        one_tile_of_2048(cu_seqlens_q, context_lens, torch.zeros(10**6, dtype=torch.int64))

    domain = Domain(max_query_len=600, captured=False)
    verdict = check(two_tiles, "position_ids", domain=domain, examples=40, save_to=None)
    assert verdict.ok
    assert 2048 in verdict.named
    assert verdict.largest["tokens in a request"] == 600
    assert verdict.largest["requests"] >= 129


@pytest.mark.skipif(DEVICE == "cuda", reason="only interpreted programs are slow")
def test_a_kernel_of_many_programs_meets_smaller_sizes() -> None:
    begun = []

    @triton.jit
    def copied(source: tl.tensor, target: tl.tensor) -> None:
        row = tl.program_id(0)
        tl.store(target + row, tl.load(source + row))

    def one_program_a_row(
        cu_seqlens_q: torch.Tensor, context_lens: torch.Tensor, position_ids: torch.Tensor
    ) -> None:
        made = torch.zeros_like(position_ids)
        begun.append(len(made))
        _positions(cu_seqlens_q, context_lens, made)
        if len(made):
            copied[(len(made),)](made, position_ids)

    verdict = check(one_program_a_row, "position_ids", checks=("agrees",), examples=40, save_to=None)
    assert verdict.ok
    assert 129 <= verdict.largest["tokens in a request"] <= 4_097
    assert max(begun) > 4_097, "no launch of too many programs was refused"
    assert verdict.comparisons == verdict.cases, "a refused launch counts as a case"


@triton.jit
def _each_sums_those_before(
    cu_seqlens_q: tl.tensor, context_lens: tl.tensor, position_ids: tl.tensor
) -> None:
    request = tl.program_id(0)
    start = 0
    for other in range(request):
        start += tl.load(cu_seqlens_q + other + 1) - tl.load(cu_seqlens_q + other)
    for row in range(tl.load(cu_seqlens_q + request + 1) - start):
        tl.store(position_ids + start + row, tl.load(context_lens + request) + row)


def quadratic(cu_seqlens_q: torch.Tensor, context_lens: torch.Tensor, position_ids: torch.Tensor) -> None:
    position_ids.zero_()
    if len(context_lens):
        _each_sums_those_before[(len(context_lens),)](cu_seqlens_q, context_lens, position_ids)


@pytest.mark.skipif(DEVICE == "cuda", reason="only interpreted accesses are slow")
def test_cases_of_too_many_accesses_are_left_out_and_count_as_examples() -> None:
    how: dict[str, Any] = {"domain": Domain(min_requests=400), "checks": ["keeps_facts"], "examples": 1}
    verdict = check(quadratic, "position_ids", save_to=None, **how)
    assert verdict.failure is None
    assert (verdict.left_out, verdict.cases) == (1, 0)
    assert verdict.status == "nothing compared"


def test_the_memory_of_a_function_bounds_its_tour() -> None:
    def tokens_by_keys(
        cu_seqlens_q: torch.Tensor, context_lens: torch.Tensor, position_ids: torch.Tensor
    ) -> None:
        torch.zeros((len(position_ids), len(position_ids)))
        _positions(cu_seqlens_q, context_lens, position_ids)

    verdict = check(tokens_by_keys, "position_ids", checks=("agrees",), save_to=None)
    assert verdict.ok
    assert 4_097 <= verdict.largest["tokens in a request"] <= 8_205


def test_the_work_of_a_tour_is_a_share_of_that_of_the_search() -> None:
    assert work_of_tour(Budget(examples=1000), 0.02) == pytest.approx(SHARE * 20)
    assert work_of_tour(Budget(seconds=60.0), 0.02) == pytest.approx(SHARE * 60)
    assert work_of_tour(Budget(examples=100), 0.001) == LEAST
    assert work_of_tour(Budget(examples=10), 0.001) == pytest.approx(LEAST / 10)
    assert work_of_tour(Budget(examples=0), 0.02) == 0.0
    assert work_of_tour(Budget(examples=40), 0.02, ("keeps_facts",)) == 0.0


def test_a_tour_shows_the_same_cases_again() -> None:
    seen = []
    for _ in range(2):
        verdict = check(one_tile_of_4096, "position_ids", checks=("agrees",), examples=5, save_to=None)
        seen.append((verdict.toured, verdict.largest, verdict.named))
    assert seen[0] == seen[1]


def test_without_examples_there_is_no_tour() -> None:
    binding = binding_of(wrong_beyond_a_hidden_count, "position_ids")
    verdict = search(binding, DEVICE, Budget(examples=0))
    assert verdict.cases == 0
    assert verdict.seconds < inf
