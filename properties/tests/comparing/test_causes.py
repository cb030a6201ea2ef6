"""A guess at why: each fault is named by what it does, and nothing is named where nothing fits."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from cumae import oracle
from cumae.oracle import Batch, Case, Inputs, Layout, Options, Request
from cumae.properties.comparing.cause import Guess, likely_cause
from cumae.properties.comparing.guesses import rounding_guesses
from cumae.properties.dialects import DIALECTS, Output
from cumae.properties.engines.pages import having
from cumae.properties.operations.axes import Extent
from cumae.properties.operations.binding import binding_of
from cumae.properties.operations.targets import load_function
from cumae.properties.running.device import prepare
from cumae.properties.tests.functions import wrong_on_purpose as wrong
from cumae.properties.tests.helpers.guessed import BUG, CASE, REQUESTS, cause_of, finding_of

DEVICE = prepare("auto")


def slots_of(case: Case, **replaced: Any) -> list[int]:
    inputs = Inputs(case)
    names = ("context_lens", "query_lens", "block_table", "row_index", "kernel_block_size", "num_slots")
    slots: list[int] = oracle.slot_mapping(**({name: inputs[name] for name in names} | replaced)).slot_mapping
    return slots


def writing_slots(values: list[int]) -> Callable[..., Any]:
    # Names what a case may vary, so that the case is promised.
    def write(row_index: Any, block_table: Any, kernel_block_size: int, slot_mapping: torch.Tensor) -> None:
        slot_mapping.copy_(torch.tensor(values))

    return write


def writing_positions(values: list[int]) -> Callable[..., Any]:
    def write(position_ids: torch.Tensor) -> None:
        position_ids.copy_(torch.tensor(values))

    return write


POSITIONS = Inputs(CASE)["position_ids"]


class TestCauses:
    @pytest.mark.parametrize("found", [70_000 - 2**16, 40_000 - 2**16])
    def test_16_bits_wrap_around(self, found: int) -> None:
        wanted = 70_000 if found > 0 else 40_000
        assert likely_cause([5, wanted], [5, found], [1]).startswith("16-bit wrap-around")
        assert likely_cause([5, wanted], [5, found + 1], [1]) == ""

    @pytest.mark.parametrize(("wanted", "found"), [(2**16, 0), (2**16 - 1, -1)])
    def test_0_and_no_slot_are_no_wrap_around(self, wanted: int, found: int) -> None:
        assert likely_cause([5, wanted], [5, found], [1]) == ""

    def test_one_too_far_is_off_by_one(self) -> None:
        assert cause_of(wrong.one_too_far, "position_ids") == "off by one: 1 too large"

    def test_copied_rows_tell_the_sign_of_zero_and_are_never_rounded(self) -> None:
        def rows_by(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., None]:
            def write(new_latents: torch.Tensor, slot_mapping: torch.Tensor, cache: torch.Tensor) -> None:
                live = slot_mapping[: len(new_latents)]
                words = change(new_latents.view(torch.int16)[live >= 0])
                cache.view(torch.int16).view(-1, cache.shape[-1])[live[live >= 0]] = words

            return write

        def without_minus_zero(words: torch.Tensor) -> torch.Tensor:
            return torch.where(words == -(2**15), 0, words)

        assert cause_of(rows_by(lambda words: words ^ 1), "cache_write") == ""
        assert cause_of(rows_by(without_minus_zero), "cache_write").startswith("the sign of zero")
        assert cause_of(rows_by(lambda words: words ^ 0x0100), "cache_write") == ""

    def test_a_guard_word_is_stale(self) -> None:
        def reads_behind(context_lens: torch.Tensor, position_ids: torch.Tensor) -> None:
            position_ids.copy_(torch.tensor(POSITIONS))
            behind = context_lens.as_strided((1,), (1,), context_lens.storage_offset() + len(context_lens))
            position_ids[2] = behind[0]

        assert cause_of(reads_behind, "position_ids").startswith("stale: ")

    def test_a_value_computed_with_unwritten_memory_is_stale(self) -> None:
        def counts_in_scratch(position_ids: torch.Tensor) -> None:
            scratch = torch.empty(2, dtype=torch.int32)
            position_ids.copy_(torch.tensor(POSITIONS))
            position_ids[1] -= scratch.sum()

        assert cause_of(counts_in_scratch, "position_ids").startswith("stale: computed with what memory held")

    def test_half_of_what_wrapped_is_told(self) -> None:
        cause = likely_cause([92_681, 92_683], [92_681 - 2**31, 92_683 - 2**31], [0, 1])
        assert cause.startswith("32-bit wrap-around on the way")
        assert likely_cause([0], [-(2**31)], [0]) == ""

    def test_the_context_of_the_request_before_is_the_neighbours(self) -> None:
        shifted = oracle.position_ids([3, 3, 5], [2, 1, 3], 6).position_ids
        cause = "neighbour: the context of the request before"
        assert cause_of(writing_positions(shifted), "position_ids") == cause

    def test_the_table_row_of_the_request_after_is_the_neighbours(self) -> None:
        ids = ((4, 1, 5), (7, 2, 6), (11, 12, 13))
        case = Case(Batch(tuple(replace(r, block_ids=ids[b]) for b, r in enumerate(REQUESTS)), 4))
        slots = slots_of(case, row_index=[1, 2, 2])
        cause = "neighbour: the table row of the request after"
        assert cause_of(writing_slots(slots), "slot_mapping", case) == cause

    def test_a_value_of_the_next_row_is_another_rows(self) -> None:
        values = [POSITIONS[i] for i in (0, 2, 3, 3, 4, 5)]
        cause = "another row's: each element holds the value of the row after it"
        assert cause_of(writing_positions(values), "position_ids") == cause

    def test_a_product_in_int32_wraps(self) -> None:
        large = Case(Batch((Request(3, 2, (2**29 + 3, 2**29 + 1)),), 4))
        slots = [(slot + 2**31) % 2**32 - 2**31 for slot in slots_of(large)]
        assert "2^31" in cause_of(writing_slots(slots), "slot_mapping", large)

    def test_a_product_in_uint32_wraps(self) -> None:
        large = Case(Batch((Request(3, 2, (2**30 + 3, 2**30 + 1)),), 4))
        slots = [slot % 2**32 for slot in slots_of(large)]
        assert "32-bit" in cause_of(writing_slots(slots), "slot_mapping", large)

    def test_padding_from_the_padded_count(self) -> None:
        bug = BUG["padding_from_padded_count"]
        case = Case(CASE.batch, Layout(num_padding_tokens=2, num_padding_slots=1))
        cause = "the padding begins at the padded count, 8, not at the true one, 6"
        finding = finding_of(binding_of(load_function(bug.target), bug.operation, bug.dialect), case)
        assert finding is not None and finding.cause == cause

    def test_padding_left_as_it_was(self) -> None:
        case = Case(CASE.batch, Layout(num_padding_tokens=2))
        cause = "the padding, from 6 on, is left as it was"
        assert cause_of(wrong.padding_left_alone, "position_ids", case) == cause

    def test_padding_that_holds_another_value(self) -> None:
        case = Case(CASE.batch, Layout(num_padding_tokens=2))
        cause = "the padding, from 6 on, holds -1"
        assert cause_of(writing_positions([*POSITIONS, -1, -1]), "position_ids", case) == cause

    def test_truncation_of_negatives_is_told_from_flooring(self) -> None:
        quotients = [(-7, 2), (-5, 3), (4, 2), (7, 2)]
        floored = [a // b for a, b in quotients]
        truncated = [int(a / b) for a, b in quotients]
        guesses = rounding_guesses(floored, quotients)
        cause = likely_cause(floored, truncated, [0, 1], extent=Extent(4, 4), guesses=guesses)
        assert cause.startswith("a quotient is truncated toward zero, not rounded down")

    def test_compressed_windows_that_round_up(self) -> None:
        case = Case(Batch((Request(4, 4, (4, 1)),), 4), options=Options.of(compress_ratio=4))

        def rounds_up(compress_ratio: int, ks: torch.Tensor, ke: torch.Tensor) -> None:
            ks.zero_()
            ke.copy_(torch.tensor([2, 2, 2, 2], dtype=torch.int32))

        assert cause_of(rounds_up, "causal_windows", case) == "a quotient is rounded up, not down"

    def test_positions_from_zero_leave_the_context_out(self) -> None:
        bug = BUG["positions_from_zero"]
        assert (
            cause_of(load_function(bug.target), bug.operation, CASE, bug.dialect) == "the context is left out"
        )

    def test_keys_of_new_tokens_only_leave_the_context_out(self) -> None:
        bug = BUG["keys_of_new_tokens_only"]
        assert (
            cause_of(load_function(bug.target), bug.operation, CASE, bug.dialect) == "the context is left out"
        )

    def test_offsets_that_are_double_count_twice(self) -> None:
        def doubles(cu_seqlens_q: torch.Tensor) -> None:
            cu_seqlens_q.copy_(torch.tensor([0, 4, 6, 12], dtype=torch.int32))

        assert cause_of(doubles, "sequence_layout") == "counts twice: each value is doubled"

    def test_a_context_added_twice(self) -> None:
        twice = oracle.position_ids([6, 10, 18], [2, 1, 3], 6).position_ids
        cause = "counts twice: the context is added twice"
        assert cause_of(writing_positions(twice), "position_ids") == cause

    def test_the_managers_block_size_in_the_kernels_table(self) -> None:
        case = replace(CASE, options=Options.of(kernel_block_size=2))
        slots = slots_of(case, kernel_block_size=4)
        cause = "block size of the other role: 4 (manager) instead of 2 (kernel)"
        assert cause_of(writing_slots(slots), "slot_mapping", case) == cause

    def test_minus_one_read_as_unsigned(self) -> None:
        case = replace(CASE, layout=Layout(row_index=(0, -1, 1)))
        slots = [2**32 - 1 if slot == -1 else slot for slot in slots_of(case)]
        assert cause_of(writing_slots(slots), "slot_mapping", case).startswith("-1 wrapped")

    def test_minus_one_used_as_a_block(self) -> None:
        case = replace(CASE, layout=Layout(row_index=(0, -1, 1)))
        slots = [-4 + 5 % 4 if slot == -1 else slot for slot in slots_of(case)]
        assert cause_of(writing_slots(slots), "slot_mapping", case) == "-1 wrapped: it is used as a block id"


class TestNoCause:
    @pytest.mark.parametrize(
        "values",
        [
            [99, 4, 5, 9, 10, 11],  # one arbitrary value
            [3, 4, 5, 17, 2, 40],  # several
            [4, 4, 5, 8, 10, 11],  # one too large here, one too small there
            [0, 0, 0, 0, 0, 0],  # zeros fit too much
            [3, 4, 5, 9, 0, 11],  # one zero
        ],
    )
    def test_nothing_is_claimed_where_nothing_fits(self, values: list[int]) -> None:
        assert cause_of(writing_positions(values), "position_ids") == ""

    def test_an_engine_output_that_holds_no_guessed_answer_drops_the_guess(self) -> None:
        """The context added twice gives positions that a map of the engine does not have."""
        largest = max(request.seq_len for request in REQUESTS)
        squares = [n * n for n in range(largest)]
        mapped = Output(
            "squares",
            follows="position_ids",
            axis="token",
            expect=lambda answer, _: [squares[position] for position in answer.position_ids],
        )
        dialect = having(DIALECTS["cumae"], "position_ids", mapped)

        def write(squares: torch.Tensor) -> None:
            squares.fill_(12345)

        finding = finding_of(binding_of(write, "position_ids", dialect), CASE)
        assert finding is not None
        assert finding.cause == ""

    def test_three_fitting_causes_are_none(self) -> None:
        guesses = [Guess(name, [5]) for name in ("a", "b", "c")]
        assert likely_cause([4], [5], [0], extent=Extent(1, 1), guesses=guesses[:1]).startswith("a, or off")
        assert likely_cause([4], [5], [0], extent=Extent(1, 1), guesses=guesses) == ""

    def test_a_guess_that_predicts_much_that_was_not_seen_is_dropped(self) -> None:
        guess = Guess("all are seven", [7, 7, 7, 7])
        assert likely_cause([1, 2, 3, 4], [7, 2, 3, 4], [0], extent=Extent(4, 4), guesses=[guess]) == ""

    def test_without_the_case_only_proofs_are_told(self) -> None:
        assert likely_cause([1], [2], [0]) == ""
        assert likely_cause([2**31], [-(2**31)], [0]).startswith("32-bit")

    def test_a_buffer_may_be_shorter_than_what_is_live(self) -> None:
        extent = Extent(9, 9)
        assert likely_cause([3, 9, 20], [3, 20, 7], [1, 2], extent=extent) == ""
        assert likely_cause([3, 9, 20], [9, 20, 20], [0, 1], extent=extent).startswith("another row's")
        assert likely_cause([3, 9, 20], [0, 0, 20], [0, 1], extent=extent) == ""

    def test_keys_from_nowhere_have_no_cause(self) -> None:
        def sevens(cache: torch.Tensor, keys: torch.Tensor) -> None:
            keys.fill_(7)

        assert cause_of(sevens, "prefix_interleave") == ""
