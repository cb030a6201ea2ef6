"""Each field of a case is checked where it is made, alone and together."""

import copy
import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from cumae.oracle import Batch, Case, Layout, Options, Request
from cumae.oracle.model.rules import INT32_MAX, MOST_NAMED, require_choice
from cumae.properties.tests.given.cases_by_hand import SMALL, refusal

# (record, field, value, the rule as the error states it).
RULES: list[tuple[Callable[..., object], str, object, str]] = [
    (Request, "context_len", -1, "must be >= 0"),
    (Request, "context_len", True, "must be an integer"),
    (Request, "context_len", 1.0, "must be an integer"),
    (Request, "context_len", "3", "must be an integer"),
    (Request, "context_len", None, "must be an integer"),
    (Request, "context_len", 2**31, "must be <= 2147483647"),
    (Request, "query_len", -1, "must be >= 0"),
    (Request, "query_len", False, "must be an integer"),
    (Request, "block_ids", "57", "must be a list of integers"),
    (Request, "block_ids", 5, "must be a list of integers"),
    (Request, "phase", "verify", "must be one of 'prefill', 'decode'"),
    (Request, "phase", None, "must be one of 'prefill', 'decode'"),
    (Batch, "requests", "none", "must be a list of requests"),
    (Batch, "requests", None, "must be a list of requests"),
    (Batch, "block_size", 0, "must be >= 1"),
    (Batch, "block_size", 2**20 + 1, "must be <= 1048576"),
    (Batch, "block_size", 16.0, "must be an integer"),
    (Batch, "world", 0, "must be >= 1"),
    (Batch, "world", True, "must be an integer"),
    (Layout, "num_padding_tokens", -1, "must be >= 0"),
    (Layout, "num_padding_requests", -1, "must be >= 0"),
    (Layout, "num_padding_slots", -1, "must be >= 0"),
    (Layout, "num_spare_rows", -1, "must be >= 0"),
    (Layout, "num_spare_columns", -1, "must be >= 0"),
    (Layout, "num_spare_blocks", -1, "must be >= 0"),
    (Layout, "num_spare_tokens", -1, "must be >= 0"),
    (Layout, "host_lens", 1, "must be true or false"),
    (Layout, "table_row_gap", -1, "must be >= 0"),
    (Layout, "cache_row_gap", -1, "must be >= 0"),
    (Layout, "key_row_gap", -1, "must be >= 0"),
    (Layout, "cache_block_gap", -1, "must be >= 0"),
    (Layout, "new_row_gap", 2**40 + 1, "must be <= 1099511627776"),
    (Layout, "key_slack", None, "must be an integer"),
    (Layout, "table_column_step", 0, "must be >= 1"),
    (Layout, "table_order", "diagonal", "must be one of 'row', 'column'"),
    (Layout, "vector_step", 0, "must be >= 1"),
    (Layout, "storage_offset", -1, "must be >= 0"),
    (Layout, "garbage", "noise", "must be one of 'minus_one', 'zero', 'plausible', 'huge'"),
    (Layout, "index_dtype", "uint32", "must be one of 'int32', 'int64', 'mixed'"),
    (Layout, "row_index", "01", "must be a list of integers or null"),
    (Layout, "row_index", (2, 2), "must give each request a row of its own"),
    (Options.of, "rank", -1, "must be >= 0"),
    (Options.of, "interleave", 0, "must be >= 1"),
    (Options.of, "kernel_block_size", 0, "must be >= 1"),
    (Options.of, "kernel_block_size", True, "must be an integer"),
    (Options.of, "compress_ratio", 0, "must be >= 1"),
    (Options.of, "window", -1, "must be >= 0"),
    (Options.of, "key_scope", "decode", "must be one of 'all', 'prefill'"),
    (Options.of, "token_padding", 1, "must be one of -1, 0"),
    (Options.of, "token_padding", False, "must be one of -1, 0"),
    (Options.of, "dummy_request", 1, "must be true or false"),
    (Options.of, "row_format", "int8", "must be one of 'bf16', 'fp16', 'fp32', 'fp8'"),
    (Options.of, "kv_lora_rank", 0, "must be >= 1"),
    (Options.of, "qk_rope_head_dim", -1, "must be >= 0"),
    (Options.of, "topk", 0, "must be >= 1"),
    (Options.of, "topk", 2**16 + 1, "must be <= 65536"),
    (Options.of, "split_size", 0, "must be >= 1"),
    (Options.of, "num_workers", True, "must be an integer"),
]
NEEDED: dict[Callable[..., object], dict[str, object]] = {
    Request: {"context_len": 0, "query_len": 0},
    Batch: {"requests": (), "block_size": 4},
    Layout: {},
    Options.of: {},
}


class TestFields:
    @pytest.mark.parametrize(("record", "field", "value", "rule"), RULES)
    def test_the_error_names_field_value_and_rule(
        self, record: Callable[..., object], field: str, value: object, rule: str
    ) -> None:
        assert refusal(lambda: record(**{**NEEDED[record], field: value})) == f"{field} = {value!r}, {rule}"

    def test_a_decode_has_context(self) -> None:
        assert refusal(lambda: Request(0, 1, (3,), "decode")) == "context_len = 0, must be >= 1 for a decode"

    def test_a_one_token_chunk_is_no_decode(self) -> None:
        assert Request(5, 1, (3,)).phase == "prefill"

    @pytest.mark.parametrize("block_id", [-2, 2**31, True, 1.0, "3", None])
    def test_a_block_id_is_an_int32_or_minus_one(self, block_id: Any) -> None:
        assert refusal(lambda: Request(0, 0, (3, block_id))).startswith(f"block_ids[1] = {block_id!r}, must ")

    def test_the_largest_block_id_is_legal(self) -> None:
        assert Request(0, 1, (INT32_MAX,)).block_ids == (INT32_MAX,)

    def test_a_request_that_is_none_is_named_by_its_index(self) -> None:
        pair: Any = (Request(0, 0), (0, 0))
        assert refusal(lambda: Batch(pair, 4)) == "requests[1] = (0, 0), must be a Request"

    def test_the_sum_of_lengths_is_an_int32(self) -> None:
        half = Request(2**30, 0, tuple(range(1024)))
        other = replace(half, block_ids=tuple(range(1024, 2048)))
        assert Batch((half, replace(other, context_len=2**30 - 1)), 2**20).num_tokens == 0
        error = refusal(lambda: Batch((half, other), 2**20))
        assert error.startswith("sum of seq_lens = 2147483648, must be <= 2147483647")

    def test_a_row_below_minus_one_is_named_by_its_request(self) -> None:
        assert refusal(lambda: Layout(row_index=(0, -2))) == "row_index[1] = -2, must be >= -1"

    def test_several_requests_may_have_no_row(self) -> None:
        assert Layout(row_index=(-1, 3, -1)).row_index == (-1, 3, -1)

    def test_lists_become_tuples(self) -> None:
        blocks: Any = [3, 4]
        assert hash(Request(0, 1, blocks)) == hash(Request(0, 1, (3, 4)))

    def test_a_window_over_compressed_rows_is_refused(self) -> None:
        assert refusal(lambda: Options.of(compress_ratio=2, window=4)) == (
            "window = 4, must be 0 when compress_ratio > 1"
        )


class TestPartsTogether:
    def test_rows_are_one_for_each_request(self) -> None:
        assert refusal(lambda: Case(SMALL.batch, Layout(row_index=(0,)))) == (
            "layout.row_index: number = 1, must be 2, one for each request"
        )

    def test_a_rank_lies_in_the_world(self) -> None:
        assert refusal(lambda: Case(Batch((), 4, 2), options=Options.of(rank=2))) == (
            "options.parallel.rank = 2, must be < world = 2"
        )

    def test_the_kernel_block_divides_the_managers(self) -> None:
        assert refusal(lambda: Case(Batch((), 6), options=Options.of(kernel_block_size=4))) == (
            "options.blocks.kernel_block_size = 4, must divide block_size = 6"
        )

    def test_the_interleave_divides_the_block_between_ranks(self) -> None:
        assert refusal(lambda: Case(Batch((), 4, 2), options=Options.of(interleave=3))) == (
            "options.parallel.interleave = 3, must divide block_size = 4 when world > 1"
        )

    def test_the_interleave_is_free_on_one_rank(self) -> None:
        assert Case(Batch((), 4), options=Options.of(interleave=3)).options.parallel.interleave == 3

    @pytest.mark.parametrize("options", [Options.of(compress_ratio=2), Options.of(window=1)])
    def test_ranks_may_compress_or_slide(self, options: Options) -> None:
        assert Case(Batch((), 4, 2), options=options).batch.world == 2

    def test_a_dummy_request_needs_a_padded_one(self) -> None:
        options, layout = Options.of(dummy_request=True), Layout(num_padding_tokens=1)
        assert refusal(lambda: Case(Batch((), 4), layout, options)) == (
            "layout.num_padding_requests = 0, must be >= 1 for a dummy request"
        )

    @pytest.mark.parametrize(
        ("field", "rule"), [("batch", "a Batch"), ("layout", "a Layout"), ("options", "Options")]
    )
    def test_parts_have_their_types(self, field: str, rule: str) -> None:
        parts: dict[str, Any] = {"batch": SMALL.batch, field: None}
        assert refusal(lambda: Case(**parts)) == f"{field} = None, must be {rule}"

    def test_a_case_can_be_hashed_copied_and_pickled(self) -> None:
        assert len({SMALL, copy.deepcopy(SMALL), pickle.loads(pickle.dumps(SMALL))}) == 1

    def test_capacity_never_falls_below_zero(self) -> None:
        assert replace(SMALL, layout=Layout(key_slack=-100)).capacity == 0

    def test_rows_of_pages_are_read_of_every_request_whatever_the_scope_of_keys(self) -> None:
        batch = Batch((Request(2, 1, (0,), "decode"), Request(0, 2, (1,))), 4)
        case = Case(batch, options=Options.of(key_scope="prefill"))
        assert (case.capacity, case.read_capacity) == (2, 5)


def test_a_table_without_rows_bounds_no_context() -> None:
    case = Case(Batch((), 1), Layout(num_spare_columns=3, context_slack=100))
    assert case.max_context_len == 0
    assert case.laid_out(num_spare_rows=1).max_context_len == 100


@pytest.mark.parametrize(("count", "rest"), [(MOST_NAMED, ""), (MOST_NAMED + 3, " and 3 more")])
def test_of_many_choices_the_first_are_named(count: int, rest: str) -> None:
    names = [f"f{i}" for i in range(count)]
    with pytest.raises(ValueError, match=rf"^--only = 'f100' .*must be one of 'f0', .*, 'f39'{rest}$"):
        require_choice("--only", "f100", names)
