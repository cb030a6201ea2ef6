"""Strides worked by hand, tried one at a time, and promised by name."""

import inspect

import pytest
import torch

from cumae.fixtures.limits import LIMITS
from cumae.fixtures.limits.strides_alone import columns_side_by_side
from cumae.oracle import DENSE, Batch, Case, Inputs, Layout, Options, Request
from cumae.properties.cases.domain import Domain
from cumae.properties.checks import CHECKS, Trial, checks_for
from cumae.properties.dialects import DIALECTS, TENSORS
from cumae.properties.operations.binding import binding_of
from cumae.properties.operations.outputs import strides_of
from cumae.properties.operations.strides import (
    DEVIATIONS,
    FAR,
    MOST_ELEMENTS,
    deviation,
    shows,
)
from cumae.properties.operations.targets import load_function
from cumae.properties.running.bench import POISON, Bench
from cumae.properties.running.device import prepare
from cumae.properties.running.tensors import tensors
from cumae.properties.search.budget import Budget
from cumae.properties.search.loop import search

DEVICE = prepare("auto")
BATCH = Batch((Request(3, 2, (1, 0, 4)), Request(0, 3, (2,))), 4)
NARROW = Options.of(kv_lora_rank=8, qk_rope_head_dim=4)


def laid_out(name: str, dialect: str = "cumae", **layout: object) -> tuple[int, ...]:
    held = DIALECTS[dialect].inputs[name].hold(Inputs(Case(BATCH, Layout(**layout), NARROW)))  # type: ignore[arg-type]
    assert isinstance(held, TENSORS)
    return held.strides


class TestByHand:
    """Two requests, a table of 2 rows and 3 columns, 5 blocks of 4 rows of 12 numbers."""

    def test_a_row_gap_lies_between_the_rows_of_a_table(self) -> None:
        assert laid_out("block_table", table_row_gap=2) == (5, 1)

    def test_a_column_step_lies_between_columns(self) -> None:
        assert laid_out("block_table", table_column_step=2) == (6, 2)

    def test_a_table_by_columns_has_its_rows_side_by_side(self) -> None:
        assert laid_out("block_table", table_order="column") == (1, 2)
        assert laid_out("block_table", table_order="column", table_column_step=2, table_row_gap=1) == (2, 5)

    def test_engines_hold_their_tables_by_rows(self) -> None:
        free = {"table_order": "column", "table_column_step": 2, "table_row_gap": 1}
        assert laid_out("block_table", "vllm", **free) == (4, 1)

    def test_a_gap_between_blocks_leaves_their_rows_together(self) -> None:
        assert laid_out("cache", cache_block_gap=5) == (53, 12, 1)
        assert laid_out("cache", cache_block_gap=5, cache_row_gap=1) == (57, 13, 1)

    def test_new_rows_and_keys_have_gaps_of_their_own(self) -> None:
        layout = Layout(new_row_gap=3, key_row_gap=7)
        binding = binding_of(load_function("cumae.gpu_impl:write_prefix_interleave"), "prefix_interleave")
        assert laid_out("new_rows", new_row_gap=3, key_row_gap=7) == (15, 1)
        assert strides_of(binding.forms["keys"], Case(BATCH, layout, NARROW)) == (19, 1)

    def test_both_parts_of_a_new_row_have_gaps_of_their_own(self) -> None:
        gaps = {"new_row_gap": 3, "key_row_gap": 7}
        assert (laid_out("kv_c", "vllm", **gaps), laid_out("k_pe", "vllm", **gaps)) == ((11, 1), (11, 1))
        assert laid_out("k_pe", "vllm", new_row_gap=3) == (4, 1)

    def test_logits_are_new_rows(self) -> None:
        assert laid_out("logits", new_row_gap=3) == (Options().router.num_experts + 3, 1)

    def test_a_table_by_columns_is_a_transposed_one(self) -> None:
        case = Case(BATCH, Layout(table_order="column"))
        by_columns, by_rows = (
            tensors(one, names=["block_table"])["block_table"] for one in (case, Case(BATCH))
        )
        assert torch.equal(by_columns, by_rows)
        assert by_columns.t().is_contiguous() and not by_columns.is_contiguous()


class TestOffsets:
    @pytest.mark.parametrize("offset", [0, 1, 3])
    def test_tensors_begin_at_the_element_asked_for(self, offset: int) -> None:
        given = tensors(Case(BATCH, Layout(storage_offset=offset)), names=["block_table", "position_ids"])
        assert given["block_table"].data_ptr() % 16 == 4 * offset % 16
        assert given["position_ids"].data_ptr() % 16 == 8 * offset % 16

    def test_rows_of_bytes_that_are_written_stay_aligned(self) -> None:
        binding = binding_of(load_function("cumae.gpu_impl:write_cache"), "cache_write")
        for row_format, aligned in (("fp8", True), ("bf16", False)):
            case = Case(BATCH, Layout(storage_offset=1), Options.of(row_format=row_format))
            (cache,) = Bench(binding, case, "cpu").buffers(POISON).outputs
            assert (cache.lead % 16 == 0) == aligned

    def test_bytes_before_the_first_element_are_guarded(self) -> None:
        def writes_before(context_lens: torch.Tensor, position_ids: torch.Tensor) -> None:
            position_ids.as_strided((1,), (1,), position_ids.storage_offset() - 1).fill_(7)

        binding = binding_of(writes_before, "position_ids")
        seen = Bench(binding, Case(BATCH, Layout(storage_offset=1)), DEVICE).observe()
        assert [told for told in seen.damage if "`position_ids` was written at" in told]


class TestOneAtATime:
    def test_as_many_numbers_as_deviations_try_all_that_show(self) -> None:
        binding = binding_of(load_function("cumae.gpu_impl:write_prefix_interleave"), "prefix_interleave")
        case = Case(BATCH, options=NARROW)
        tried = [deviation(binding, case, number) for number in range(7, 7 + len(DEVIATIONS))]
        assert all(one in tried for one in DEVIATIONS if shows(binding, one))
        assert sum(shows(binding, one) for one in DEVIATIONS) == len(DEVIATIONS) - 1

    def test_a_cases_own_strides_are_kept(self) -> None:
        binding = binding_of(columns_side_by_side, "slot_mapping")
        assert deviation(binding, Case(BATCH, Layout(table_row_gap=1)), 3) == {"table_row_gap": 1}

    def test_strides_that_do_not_show_are_no_strides(self) -> None:
        binding = binding_of(columns_side_by_side, "slot_mapping")
        assert deviation(binding, Case(BATCH, Layout(key_row_gap=1)), 0) == {"table_row_gap": 3}

    def test_each_stride_is_alone_in_some_deviation(self) -> None:
        alone = {name for one in DEVIATIONS if len(one) == 1 for name in one}
        assert alone == set(DENSE)

    def test_far_columns_come_nearer_in_a_large_table(self) -> None:
        binding = binding_of(columns_side_by_side, "slot_mapping")
        number = DEVIATIONS.index({"table_column_step": FAR})
        wide = Case(Batch((Request(0, 1, tuple(range(2**10))),), 1))
        assert deviation(binding, Case(BATCH), number) == {"table_column_step": FAR}
        assert deviation(binding, wide, number) == {"table_column_step": MOST_ELEMENTS // 2**10}

    def test_a_finding_is_about_the_case_with_the_strides(self) -> None:
        binding = binding_of(columns_side_by_side, "slot_mapping", domain=Domain(captured=False))
        verdict = search(binding, DEVICE, Budget(examples=40), checks=["accepts_strides"])
        assert verdict.failure is not None
        found = verdict.failure.case
        assert found.layout in (Layout(table_column_step=2), Layout(table_order="column"))
        assert len(found.batch.requests) == 1 and found.batch.num_tokens <= 2
        assert CHECKS["accepts_strides"](Trial(binding, found, DEVICE, number=5)) is not None


def tables_anywhere(
    block_table: torch.Tensor,
    row_index: torch.Tensor,
    seq_lens: torch.Tensor,
    num_requests: int,
    tokens_per_entry: int,
    page_table: torch.Tensor,
) -> None:
    page_table.zero_()
    for b in range(num_requests):
        pages = -(-int(seq_lens[b]) // tokens_per_entry)
        row = block_table[row_index[b], :pages] if row_index[b] >= 0 else block_table[0, :0]
        page_table[b, : len(row)] = row.clamp(min=-1)


def tables_without_gaps(page_table: torch.Tensor, **given: object) -> None:
    dense = page_table.as_strided(page_table.shape, (page_table.shape[1], 1), page_table.storage_offset())
    tables_anywhere(page_table=dense, **given)  # type: ignore[arg-type]


tables_without_gaps.__signature__ = inspect.signature(tables_anywhere)  # type: ignore[attr-defined]


VECTORS = {
    "cumae.gpu_impl:write_causal_windows": ("causal_windows", "cumae", ("ks", "ke")),
    "cumae.gpu_impl:MetadataCache": ("metadata_cache", "cumae", ("context_lens_cpu", "query_lens_cpu")),
    "cumae.fixtures.correct.fastdeploy:position_ids": ("position_ids", "fastdeploy", ("seq_lens_decoder",)),
}


class TestVectors:
    @pytest.mark.parametrize("target", VECTORS)
    def test_functions_that_take_any_stride_may_promise_it(self, target: str) -> None:
        operation, dialect, names = VECTORS[target]
        domain = Domain(views=names)
        binding = binding_of(load_function(target), operation, dialect, domain)
        assert "accepts_strides" in checks_for(binding)
        for number in range(len(DEVIATIONS)):
            case = Case(BATCH, Layout(vector_step=2 + number % 2))
            assert CHECKS["accepts_strides"](Trial(binding, case, DEVICE, number=number)) is None

    def test_each_view_has_a_step_of_its_own(self) -> None:
        domain = Domain(views=("context_lens_cpu", "query_lens_cpu"))
        binding = binding_of(load_function("cumae.gpu_impl:MetadataCache"), "metadata_cache", domain=domain)
        strided = Bench(binding, Case(BATCH, Layout(vector_step=2)), DEVICE)
        held = (strided.held(name) for name in domain.views)
        assert [one.strides for one in held if isinstance(one, TENSORS)] == [(2,), (3,)]

    def test_no_vector_is_strided_unless_it_is_promised(self) -> None:
        binding = binding_of(load_function("cumae.gpu_impl:write_causal_windows"), "causal_windows")
        assert not shows(binding, {"vector_step": 2}) and "accepts_strides" not in checks_for(binding)

    @pytest.mark.parametrize("views", [(), ("page_table",)])
    def test_rows_that_may_lie_apart_are_those_of_a_wider_table(self, views: tuple[str, ...]) -> None:
        found = {}
        for function in (tables_anywhere, tables_without_gaps):
            binding = binding_of(function, "page_table", domain=Domain(views=views))
            outputs = Bench(binding, Case(BATCH, Layout(vector_step=3)), DEVICE).buffers(POISON).outputs
            assert [one.strides for one in outputs] == [(4, 1) if views else (2, 1)]
            trials = [Trial(binding, Case(BATCH), DEVICE, number=n) for n in range(len(DEVIATIONS))]
            assert CHECKS["agrees"](trials[0]) is None
            found[function] = [one for trial in trials if (one := CHECKS["accepts_strides"](trial))]
        assert not found[tables_anywhere]
        assert bool(found[tables_without_gaps]) == bool(views)

    def test_a_promise_names_an_argument(self) -> None:
        with pytest.raises(ValueError, match=r"views = 'kv', must be an argument: token_to_request, "):
            binding_of(columns_side_by_side, "slot_mapping", domain=Domain(views=("kv",)))


def test_every_stride_has_a_function_that_ignores_it() -> None:
    shown: set[str] = set()
    for limit in LIMITS:
        if limit.where.startswith("strides_alone:") and limit.witness is not None:
            witness = limit.witness()
            assert isinstance(witness, Case)
            shown |= {name for name, value in witness.layout.strides.items() if value != DENSE[name]}
    assert shown == set(DENSE) - {"table_row_gap", "cache_row_gap"}
