"""Fixture files: their format, their tags, and what is refused."""

import copy
import re
from typing import Any

import pytest

from cumae.fixtures import OPERATIONS, load, load_tags
from cumae.fixtures.edge_cases import TAGS
from cumae.fixtures.format import from_file
from cumae.fixtures.text import to_text
from cumae.fixtures.write import texts
from cumae.oracle.model.case_json import parse
from cumae.properties.tests.helpers.fixture_files import installed

# The smallest triggers of known bugs that fit one step and a small file, by the operation that they concern.
TRIGGERS = {
    "sequence_layout": {
        "FastDeploy#6358",
        "FastDeploy#7727",
        "FastDeploy#8065",
        "TensorRT-LLM-nvbugs#6513132",
        "flashinfer#3779",
        "sglang#21452",
        "vllm#47123",
    },
    "position_ids": {
        "FastDeploy#7727",
        "FastDeploy#8065",
        "flashinfer#2255",
        "sglang#16912",
        "sglang#25015",
        "vllm#26498",
        "vllm#47123",
    },
    "slot_mapping": {
        "FastDeploy#7367",
        "FastDeploy#7727",
        "TensorRT-LLM#16219",
        "flashinfer#527",
        "sglang#26481",
        "sglang#26534",
        "sglang#8685",
        "vllm#26498",
        "vllm#29845",
        "vllm#33937",
        "vllm#36580",
        "vllm#49757",
        "vllm#53982",
        "vllm#54296",
        "vllm#57030",
        "vllm#57260",
    },
    "cache_write": {"vllm#29845", "vllm#36580"},
    "causal_windows": {
        "FastDeploy#7598",
        "FastDeploy#7727",
        "FastDeploy#8065",
        "sglang#14325",
        "sglang#20606",
        "vllm#3385",
        "vllm#47123",
        "vllm#51252",
    },
    "prefix_interleave": {
        "FastDeploy#7727",
        "FastDeploy#8065",
        "flashinfer#2255",
        "flashinfer#3136",
        "flashinfer#3779",
        "flashinfer#527",
        "flashinfer#810",
        "sglang#11985",
        "sglang#14224",
        "sglang#16912",
        "vllm#27909",
        "vllm#50427",
    },
    "sparse_schedule": {"vllm#42982"},
    "topk_to_slots": {"vllm#53982", "vllm#54296"},
    "compact_topk_slots": {"vllm#53982", "vllm#54296"},
    "chunked_context": {"sglang#22688"},
    "grouped_topk": {"vllm#12002", "vllm#13474", "vllm#23640", "vllm#41835"},
}


def parsed(operation: str) -> Any:
    return parse(installed(operation), "text")


@pytest.mark.parametrize("operation", OPERATIONS)
class TestFiles:
    def test_a_file_is_what_the_command_would_write(self, operation: str) -> None:
        assert texts()[f"{operation}.json"] == installed(operation)

    def test_reading_and_writing_change_nothing(self, operation: str) -> None:
        assert to_text(operation, load_tags(operation), load(operation)) == installed(operation)

    def test_a_file_holds_twelve_to_thirty_cases(self, operation: str) -> None:
        assert 12 <= len(load(operation)) <= 30

    def test_every_verdict_but_either_is_there(self, operation: str) -> None:
        assert {"valid", "invalid"} <= {fixture.verdict for fixture in load(operation)}

    def test_tags_are_explained_once_and_used(self, operation: str) -> None:
        used = {tag for fixture in load(operation) for tag in fixture.tags}
        assert list(load_tags(operation)) == [tag for tag in TAGS if tag in used]
        for tag in used:
            assert installed(operation).count(f'\n    "{tag}": "') == 1

    def test_every_trigger_is_there(self, operation: str) -> None:
        assert set(load_tags(operation)) >= TRIGGERS.get(operation, set())

    def test_a_trigger_is_no_invalid_case(self, operation: str) -> None:
        for fixture in load(operation):
            assert fixture.case is not None or not any("#" in tag for tag in fixture.tags)

    def test_arrays_stand_on_one_line_in_plain_decimals(self, operation: str) -> None:
        for line in installed(operation).splitlines():
            flat = re.sub(r'"[^"]*"', '""', line)
            whole = flat.count("[") == flat.count("]")
            assert whole or re.fullmatch(r' *("": )?\[| *\],?', flat), line
            assert not re.search(r"\d[.eExX]", flat)

    @pytest.mark.parametrize(
        ("path", "value", "rule"),
        [
            ("version", 2, "be <= 1"),
            ("version", True, "be an integer"),
            ("operation", "rope", "be one of"),
            ("extra", 1, "be absent: the field is unknown"),
            ("tags", [], "be an object"),
            ("tags.unused", "Means nothing.", "be used by a case"),
            ("tags.padding", "no sentence", "be one sentence"),
            ("tags.Two words", "No word.", "be a word or a report"),
            ("cases", {}, "be a list"),
            ("cases[1]", 7, "be an object"),
            ("cases[0].comment", "x", "be absent: the field is unknown"),
            ("cases[0].id", "Not Words", "be words joined by _"),
            ("cases[0].id", 3, "be words joined by _"),
            ("cases[0].reason", "", "be one sentence"),
            ("cases[0].tags", "padding", "be a list"),
            ("cases[0].tags", ["unknown_tag"], "be explained in tags"),
            ("cases[0].tags", ["padding", "padding"], "occur once"),
            ("cases[0].verdict", "right", "be one of 'valid', 'invalid', 'either'"),
            ("cases[0].verdict", "invalid", "be absent: the field is unknown"),
            ("cases[0].error", "text", "be absent: the field is unknown"),
            ("cases[0].case", None, "be an object"),
            ("cases[0].case.version", 2, "be 1"),
            ("cases[0].case.batch.block_size", 0, "be >= 1"),
            ("cases[0].expected", [], "be an object"),
            ("cases[0].expected.more", [], "be absent: the field is unknown"),
        ],
    )
    def test_a_changed_file_is_refused(self, operation: str, path: str, value: object, rule: str) -> None:
        changed = parsed(operation)
        *outer, last = (int(k) if k.isdigit() else k for k in re.findall(r"[\w ]+", path))
        place: Any = changed
        for key in outer:
            place = place[key]
        place[last] = value
        with pytest.raises(
            ValueError, match=f"^text\\.{re.escape(path.split('.')[0])}.*, must {re.escape(rule)}"
        ):
            from_file(changed, operation, "text")

    @pytest.mark.parametrize("field", ["version", "operation", "tags", "cases"])
    def test_a_field_that_is_missing_is_refused(self, operation: str, field: str) -> None:
        changed = parsed(operation)
        del changed[field]
        with pytest.raises(ValueError, match=f"text.{field} = None, must be present: the field is required"):
            from_file(changed, operation, "text")

    @pytest.mark.parametrize("field", ["id", "reason", "tags", "verdict", "case", "expected"])
    def test_a_case_without_a_field_is_refused(self, operation: str, field: str) -> None:
        changed = parsed(operation)
        del changed["cases"][0][field]
        with pytest.raises(ValueError, match=rf"text.cases\[0\].{field} = None, must be present"):
            from_file(changed, operation, "text")

    def test_an_output_that_is_missing_is_refused(self, operation: str) -> None:
        changed = parsed(operation)
        name = OPERATIONS[operation][-1]
        del changed["cases"][0]["expected"][name]
        with pytest.raises(ValueError, match=rf"text.cases\[0\].expected.{name} = None, must be present"):
            from_file(changed, operation, "text")

    @pytest.mark.parametrize("value", [True, 1.0, None, "7", -2, ["cache", 1], ["new", -1], ["old", 1], []])
    def test_an_entry_of_another_kind_is_refused(self, operation: str, value: object) -> None:
        changed = parsed(operation)
        name = OPERATIONS[operation][0]
        changed["cases"][0]["expected"][name][0] = value
        with pytest.raises(ValueError, match=rf"text.cases\[0\].expected.{name}\[0\]"):
            from_file(changed, operation, "text")

    def test_an_id_that_stands_twice_is_refused(self, operation: str) -> None:
        changed = parsed(operation)
        changed["cases"].append(copy.deepcopy(changed["cases"][0]))
        with pytest.raises(ValueError, match=r"text.cases\[\d+\].id = .*, must occur once"):
            from_file(changed, operation, "text")
