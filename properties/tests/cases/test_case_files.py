"""A case as JSON and as a file: the round trip, and what is refused."""

import copy
import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from cumae.oracle import Batch, Case, from_json, to_json
from cumae.oracle.model.case_json import MAX_FILE_BYTES, parse, read_file
from cumae.properties.cases.strategies import cases
from cumae.properties.tests.given.cases_by_hand import SMALL, refusal

EXAMPLES = settings(max_examples=200, deadline=None, derandomize=False)


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
