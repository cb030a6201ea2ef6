import copy
import json
import pickle
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import combinations_with_replacement, permutations, product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from cumae.oracle import Batch, Case, Layout, Options, Request, from_json, to_json
from cumae.oracle.model.case_json import MAX_FILE_BYTES, parse, read_file
from cumae.oracle.model.rules import INT32_MAX
from cumae.properties.cases.strategies import cases

EXAMPLES = settings(max_examples=200, deadline=None, derandomize=False)


def refusal(build: Callable[[], object]) -> str:
    """Return what the ``ValueError`` says."""
    with pytest.raises(ValueError) as caught:
        build()
    return str(caught.value)


def one(context_len: int, query_len: int, *block_ids: int) -> Request:
    return Request(context_len, query_len, block_ids)


SMALL = Case(Batch((Request(3, 2, (7, 4, 9), "decode"), Request(0, 1, (5,))), 2))

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
    (Layout, "key_slack", None, "must be an integer"),
    (Layout, "table_column_step", 0, "must be >= 1"),
    (Layout, "garbage", "noise", "must be one of 'minus_one', 'zero', 'plausible', 'huge'"),
    (Layout, "index_dtype", "uint32", "must be one of 'int32', 'int64'"),
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


class TestBlocks:
    @pytest.mark.parametrize(
        ("seq_len", "block_size", "world", "needed"),
        [
            (0, 4, 1, 0),
            (1, 4, 1, 1),
            (3, 4, 1, 1),
            (4, 4, 1, 1),
            (5, 4, 1, 2),
            (8, 4, 2, 1),
            (9, 4, 2, 2),
            (7, 1, 1, 7),
        ],
    )
    def test_a_request_needs_a_block_for_each_started_run_of_tokens(
        self, seq_len: int, block_size: int, world: int, needed: int
    ) -> None:
        ids = tuple(range(10, 10 + needed))
        assert Batch((one(0, seq_len, *ids),), block_size, world).num_live_blocks(one(0, seq_len)) == needed

    def test_too_few_blocks_are_refused(self) -> None:
        assert refusal(lambda: Batch((one(0, 0), one(3, 2, 7)), 4)) == (
            "requests[1].block_ids: number = 1, must be >= 2 for 5 tokens at 4 a block"
        )

    def test_too_few_blocks_under_context_parallelism_are_refused(self) -> None:
        assert refusal(lambda: Batch((one(0, 9, 7),), 4, world=2)) == (
            "requests[0].block_ids: number = 1, must be >= 2 for 9 tokens at 8 a block"
        )

    def test_blocks_of_ranks_are_not_counted_in_tokens_of_one_rank(self) -> None:
        assert Batch((one(0, 16, 7, 2),), 4, world=2).tokens_per_block == 8

    def test_a_missing_block_counts_as_an_entry(self) -> None:
        assert Batch((one(4, 4, -1, 7),), 4).num_tokens == 4


class TestSharing:
    def test_a_common_prefix_is_shared(self) -> None:
        assert Batch((one(4, 1, 5, 1), one(4, 1, 5, 2)), 4).num_tokens == 2

    def test_a_block_stands_once_in_its_request(self) -> None:
        assert refusal(lambda: Batch((one(0, 8, 5, 5),), 4)) == (
            "requests[0].block_ids[1] = 5, must be distinct within its request"
        )

    def test_a_block_is_not_shared_at_another_column(self) -> None:
        assert refusal(lambda: Batch((one(8, 0, 3, 5), one(4, 0, 5)), 4)) == (
            "requests[1].block_ids[0] = 5, must be shared with request 0 only as part of a common prefix"
        )

    def test_a_block_is_not_shared_behind_different_ones(self) -> None:
        assert refusal(lambda: Batch((one(8, 0, 3, 5), one(8, 0, 4, 5)), 4)) == (
            "requests[1].block_ids[1] = 5, must be shared with request 0 only as part of a common prefix"
        )

    def test_a_block_has_one_writer(self) -> None:
        assert refusal(lambda: Batch((one(2, 1, 5), one(2, 1, 5)), 4)) == (
            "requests[0].block_ids[0] = 5, must not be written at position 2: request 1 holds it there too"
        )

    def test_the_first_writer_may_go_on_in_a_shared_block(self) -> None:
        assert Batch((one(2, 2, 5), one(2, 0, 5)), 4).num_tokens == 2

    def test_two_writers_of_one_block_are_refused_even_behind_each_other(self) -> None:
        assert "request 1 holds it there too" in refusal(lambda: Batch((one(1, 1, 5), one(2, 2, 5)), 4))

    def test_a_slot_of_an_idle_request_is_not_written(self) -> None:
        assert refusal(lambda: Batch((one(3, 0, 5), one(2, 1, 5)), 4)) == (
            "requests[1].block_ids[0] = 5, must not be written at position 2: request 0 holds it there too"
        )

    def test_spare_blocks_may_be_anybodys(self) -> None:
        assert Batch((one(4, 0, 5, 6), one(4, 0, 6, 5)), 4).num_tokens == 0

    def test_missing_blocks_are_not_shared_blocks(self) -> None:
        assert Batch((one(8, 0, -1, 5), one(8, 0, 3, -1), one(0, 2, -1)), 4).num_tokens == 2

    def test_the_rules_are_those_of_the_definition(self) -> None:
        """All pairs and some triples of small requests without missing blocks, by looking at every slot."""
        shapes = [
            (context, query, ids)
            for context, query in ((0, 1), (1, 0), (1, 1), (2, 0), (2, 1), (1, 2), (3, 1))
            for ids in permutations((4, 5, 6), -(-(context + query) // 2))
        ]
        groups = [*product(shapes, repeat=2), *combinations_with_replacement(shapes[::3], 3)]
        verdicts = set()
        for group in groups:
            requests = tuple(one(context, query, *ids) for context, query, ids in group)
            expected = follows_the_definition(requests, 2)
            verdicts.add(expected)
            assert is_accepted(requests, 2) == expected, requests
        assert verdicts == {True, False}


def follows_the_definition(requests: tuple[Request, ...], block_size: int) -> bool:
    """Whether the rules for sharing hold, slot by slot as SPEC states them."""
    held = []
    for request in requests:
        places = [(request.block_ids[p // block_size], p % block_size) for p in range(request.seq_len)]
        held.append((request.block_ids, places[: request.context_len], places[request.context_len :]))
    for b, (ids, _, written) in enumerate(held):
        for other, (other_ids, other_cached, other_written) in enumerate(held):
            if other == b:
                continue
            for j, block in enumerate(ids):
                if block in other_ids and other_ids[: j + 1] != ids[: j + 1]:
                    return False
            if set(written) & {*other_cached, *other_written}:
                return False
    return True


def is_accepted(requests: tuple[Request, ...], block_size: int) -> bool:
    try:
        Batch(requests, block_size)
    except ValueError:
        return False
    return True


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
    def test_ranks_do_not_compress_or_slide(self, options: Options) -> None:
        assert refusal(lambda: Case(Batch((), 4, 2), options=options)) == (
            "batch.world = 2, must be 1 when compress_ratio > 1 or window > 0"
        )

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


class TestJson:
    @EXAMPLES
    @given(cases())
    def test_a_case_survives_the_round_trip(self, case: Case) -> None:
        assert from_json(parse(json.dumps(to_json(case)), "text")) == case

    @EXAMPLES
    @given(cases())
    def test_what_is_written_is_read_into_the_same_text(self, case: Case) -> None:
        written = json.dumps(to_json(case))
        assert json.dumps(to_json(from_json(json.loads(written)))) == written

    def test_defaults_are_left_out(self) -> None:
        assert to_json(Case(Batch((), 4))) == {
            "version": 1,
            "batch": {"block_size": 4, "requests": []},
            "layout": {},
            "options": {},
        }

    def test_layout_and_options_may_be_missing(self) -> None:
        assert from_json({"version": 1, "batch": {"block_size": 4, "requests": []}}) == Case(Batch((), 4))

    @pytest.mark.parametrize("version", [0, 2, "1", 1.0, True, None, [1]])
    def test_another_version_is_refused(self, version: object) -> None:
        changed = {**to_json(SMALL), "version": version}
        assert refusal(lambda: from_json(changed)) == f"case.version = {version!r}, must be 1"

    @pytest.mark.parametrize("field", ["version", "batch"])
    def test_a_missing_field_is_refused(self, field: str) -> None:
        changed = to_json(SMALL)
        del changed[field]
        assert refusal(lambda: from_json(changed)) == (
            f"case.{field} = None, must be present: the field is required"
        )

    @pytest.mark.parametrize("value", [None, 3, "case", [], [1], True])
    def test_a_case_is_an_object(self, value: object) -> None:
        assert refusal(lambda: from_json(value)) == f"case = {value!r}, must be an object"

    @pytest.mark.parametrize(
        ("path", "value", "rule"),
        [
            ("extra", 1, "be absent: the field is unknown"),
            ("batch", [], "be an object"),
            ("batch.extra", 1, "be absent: the field is unknown"),
            ("batch.requests", {}, "be a list"),
            ("batch.block_size", True, "be an integer"),
            ("batch.block_size", None, "be an integer"),
            ("batch.requests[1]", 7, "be an object"),
            ("batch.requests[0].context_len", -1, "be >= 0"),
            ("batch.requests[0].query_len", 1.0, "be an integer"),
            ("batch.requests[0].seq_len", 5, "be absent: the field is unknown"),
            ("batch.requests[0].block_ids", {"7": 4}, "be a list of integers"),
            ("batch.requests[0].block_ids[1]", [], "be an integer"),
            ("batch.requests[0].block_ids[1]", False, "be an integer"),
            ("batch.requests[0].phase", ["decode"], "be one of 'prefill', 'decode'"),
            ("layout", None, "be an object"),
            ("layout.row_index", {}, "be a list of integers or null"),
            ("layout.padding", 1, "be absent: the field is unknown"),
            ("options", [], "be an object"),
            ("options.parallel.rank", 1, "be < world = 1"),
            ("options.padding.token_padding", 0.0, "be one of -1, 0"),
        ],
    )
    def test_the_error_names_the_path(self, path: str, value: object, rule: str) -> None:
        changed = changed_at(to_json(SMALL), path, value)
        assert refusal(lambda: from_json(changed)) == f"case.{path} = {value!r}, must {rule}"

    def test_too_few_blocks_are_named_by_their_request(self) -> None:
        changed = changed_at(to_json(SMALL), "batch.requests[0].block_ids", [7])
        assert refusal(lambda: from_json(changed)) == (
            "case.batch.requests[0].block_ids: number = 1, must be >= 3 for 5 tokens at 2 a block"
        )


def changed_at(value: dict[str, Any], path: str, new: object) -> dict[str, Any]:
    """Return a copy in which the place ``path`` names holds ``new``."""
    changed = copy.deepcopy(value)
    *outer, last = (int(key) if key.isdigit() else key for key in re.findall(r"\w+", path))
    place: Any = changed
    for key in outer:
        place = place[key] if isinstance(place, list) else place.setdefault(key, {})
    place[last] = new
    return changed


class TestFiles:
    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"no json",
            b'{"version": 1, "batch": {"block_size": 4, "requests"',
            b'{"version": 1} {"version": 1}',
            b"\xff\xfe\x00\xd8",
            b'"\xff"',
            b"9" * 5000,
            b"[" * 50_000,
            b'{"a":' * 50_000,
        ],
    )
    def test_what_is_no_json_is_refused(self, content: bytes, tmp_path: Path) -> None:
        file = tmp_path / "case.json"
        file.write_bytes(content)
        assert refusal(lambda: read_file(file)).startswith(f"{file}: ")

    @pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
    def test_numbers_that_are_none_are_refused(self, number: str) -> None:
        error = refusal(lambda: parse(f'{{"version": {number}}}', "text"))
        assert error == f"text: content, must be JSON: {number} is not a number that a case can hold"

    def test_a_number_beyond_doubles_is_no_length(self) -> None:
        text = json.dumps(to_json(SMALL)).replace('"context_len": 3', '"context_len": 1e999')
        error = refusal(lambda: from_json(parse(text, "text")))
        assert error == "case.batch.requests[0].context_len = inf, must be an integer"

    def test_a_key_stands_once(self) -> None:
        text = '{"version": 1, "batch": {}, "version": 1}'
        assert "version = 2, must occur once in its object" in refusal(lambda: parse(text, "text"))

    def test_a_key_stands_once_in_inner_objects_too(self) -> None:
        text = '{"batch": {"block_size": 4, "block_size": 4}}'
        assert "block_size = 2, must occur once in its object" in refusal(lambda: parse(text, "text"))

    def test_every_truncation_is_refused(self) -> None:
        text = json.dumps(to_json(SMALL))
        for end in range(len(text)):
            error = refusal(partial(parse, text[:end], "text"))
            assert error.startswith("text: content, must be JSON: ")

    @pytest.mark.parametrize("size_bytes", [60_000_000, 100_000_000])
    @pytest.mark.parametrize("opening", [b"[", b'{"a":'])
    def test_endless_nesting_is_refused(self, opening: bytes, size_bytes: int, tmp_path: Path) -> None:
        file = tmp_path / "case.json"
        file.write_bytes(opening * (size_bytes // len(opening)))
        error = refusal(lambda: from_json(read_file(file)))
        assert error.startswith(f"{file}: " + ("nesting" if size_bytes < MAX_FILE_BYTES else "size in bytes"))

    def test_nesting_that_can_be_parsed_is_refused_by_its_type(self) -> None:
        deep = "[" * 500 + "]" * 500
        text = f'{{"version": 1, "batch": {{"block_size": 4, "requests": {deep}}}}}'
        assert refusal(lambda: from_json(parse(text, "text"))).startswith("case.batch.requests[0] = ")

    def test_a_missing_file_is_refused(self, tmp_path: Path) -> None:
        error = refusal(lambda: read_file(tmp_path / "none.json"))
        assert error == f"{tmp_path / 'none.json'}: file, must be readable: No such file or directory"

    def test_a_folder_is_refused(self, tmp_path: Path) -> None:
        error = refusal(lambda: read_file(tmp_path))
        assert error.startswith(f"{tmp_path}: file = ")
        assert error.endswith("must be a regular file")

    def test_a_file_is_read_as_it_was_written(self, tmp_path: Path) -> None:
        file = tmp_path / "case.json"
        file.write_text(json.dumps(to_json(SMALL)))
        assert from_json(read_file(file)) == SMALL


def test_a_table_without_rows_bounds_no_context() -> None:
    case = Case(Batch((), 1), Layout(num_spare_columns=3, context_slack=100))
    assert case.max_context_len == 0
    assert replace(case, layout=replace(case.layout, num_spare_rows=1)).max_context_len == 100
