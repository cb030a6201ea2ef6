"""``fixtures/schema.json`` accepts every file that cumae writes, and refuses changed ones."""

import copy
import json
import re
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, is_dataclass
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings

from cumae import CheckName, OperationName, check
from cumae.fixtures import OPERATIONS
from cumae.fixtures.bugs.sequence_layout import StaleTokenMap
from cumae.fixtures.schema import record, schema
from cumae.oracle import Batch, Case, Layout, Options, Request, from_json, leveled, to_json, trace_to_json
from cumae.oracle.model.case_json import fields_given
from cumae.oracle.model.rules import require_int
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.seeded import seeded_cases
from cumae.properties.cases.strategies import cases
from cumae.properties.running.device import prepare
from cumae.properties.tests.helpers.json_schema import Schema, faults

prepare("auto")
SCHEMA: Schema = json.loads(files("cumae.fixtures").joinpath("schema.json").read_text(encoding="utf-8"))
SMALL = Case(
    Batch((Request(3, 2, (7, 4, 9), "decode"), Request(0, 1, (5,))), 2),
    Layout(row_index=(1, 0), host_lens=False, garbage="huge", key_row_gap=3),
)
RECORDS = {"Request": Request, "Batch": Batch, "Layout": Layout, "Options": Options}


def found(value: object) -> list[str]:
    """Return what is wrong with a file, as it is read back."""
    return faults(json.loads(json.dumps(value)), SCHEMA, SCHEMA)


def fixture_file(operation: str) -> Any:
    return json.loads(files("cumae.fixtures").joinpath(f"{operation}.json").read_text(encoding="utf-8"))


def test_the_file_is_derived_from_the_dataclasses() -> None:
    assert json.loads(json.dumps(schema())) == SCHEMA


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_fixture_file_is_accepted(operation: str) -> None:
    assert found(fixture_file(operation)) == []


@settings(max_examples=100, deadline=None, derandomize=False, database=None)
@given(case=cases())
def test_every_drawn_case_is_accepted(case: Case) -> None:
    assert found(to_json(case)) == []


def test_every_seeded_case_and_trace_is_accepted() -> None:
    drawn = list(islice(seeded_cases(0, Domain()), 500))
    assert [case for case in drawn if found(to_json(case))] == []
    assert found(trace_to_json(leveled([SMALL, SMALL]))) == []


def always_zero(cu_seqlens_q: torch.Tensor, position_ids: torch.Tensor) -> None:
    """Wrong wherever a position is not 0."""
    position_ids.zero_()


@pytest.mark.parametrize(
    ("function", "operation", "name", "holds"),
    [
        (always_zero, "position_ids", "agrees", "case"),
        (StaleTokenMap, "sequence_layout", "forgets_history", "trace"),
    ],
)
def test_every_saved_failure_is_accepted(
    function: Callable[..., object], operation: OperationName, name: CheckName, holds: str, tmp_path: Path
) -> None:
    assert not check(function, operation, checks=[name], examples=40, save_to=tmp_path)
    (file,) = tmp_path.glob("*.json")
    saved = json.loads(file.read_text())
    assert holds in saved
    assert found(saved) == []


@pytest.mark.parametrize("kind", RECORDS)
def test_every_field_of_a_record_is_described(kind: str) -> None:
    described = SCHEMA["$defs"][kind]
    assert list(described["properties"]) == [known.name for known in fields_given(RECORDS[kind])]
    for known in fields_given(RECORDS[kind]):
        assert (known.name in described["required"]) == (known.default is known.default_factory is MISSING)
        default = list(known.default) if isinstance(known.default, tuple) else known.default
        if known.default is not MISSING and not is_dataclass(known.default):
            assert described["properties"][known.name]["default"] == default


def test_every_integer_of_a_case_has_a_range_or_choices() -> None:
    for kind in RECORDS:
        for name, described in SCHEMA["$defs"][kind]["properties"].items():
            parts = [described, described.get("items", {}), *described.get("anyOf", [])]
            whole = [part for part in parts if part.get("type") == "integer"]
            assert all({"minimum", "maximum"} <= set(part) or "enum" in part for part in whole), name


@dataclass(frozen=True)
class Inner:
    """A group of options."""

    count: int = 3

    def __post_init__(self) -> None:
        require_int("count", self.count, 2, 9)


@dataclass(frozen=True)
class Outer:
    """Options in groups."""

    inner: Inner = field(default_factory=Inner)


def test_a_record_inside_of_a_record_is_described_too() -> None:
    definitions: dict[str, Schema] = {}
    assert record(Outer, definitions)["properties"] == {"inner": {"$ref": "#/$defs/Inner"}}
    assert definitions["Outer"]["required"] == []
    described = {"type": "integer", "minimum": 2, "maximum": 9, "default": 3}
    assert definitions["Inner"]["properties"] == {"count": described}


def places(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Return the places of a JSON value, outer ones first."""
    inside: list[Any] = []
    if isinstance(value, dict):
        inside = list(value.items())
    elif isinstance(value, list):
        inside = list(enumerate(value))
    return [path, *(place for key, part in inside for place in places(part, (*path, key)))]


def at(value: Any, place: tuple[str | int, ...]) -> Any:
    for key in place:
        value = value[key]
    return value


@pytest.mark.parametrize("text", ["case", "failure", "fixtures"])
class TestRefused:
    def read(self, text: str) -> Any:
        failure = {"version": 1, "operation": "x", "dialect": "x", "target": "x", "finding": {}}
        whole = fixture_file("position_ids")
        whole["cases"] = [case for case in whole["cases"] if case["verdict"] != "invalid"][:2]
        kinds = {"case": to_json(SMALL), "failure": {**failure, "case": to_json(SMALL)}, "fixtures": whole}
        return json.loads(json.dumps(kinds[text]))

    def open(self, place: tuple[str | int, ...]) -> bool:
        """Whether a place may hold anything: what was found, and the texts of tags."""
        return bool({"finding", "tags"} & set(place))

    def test_an_unknown_field(self, text: str) -> None:
        for place in places(self.read(text)):
            changed = self.read(text)
            if isinstance(at(changed, place), dict) and not self.open(place):
                at(changed, place)["unknown"] = 1
                assert found(changed), place

    def test_a_missing_field(self, text: str) -> None:
        required = {
            "version",
            "operation",
            "dialect",
            "target",
            "finding",
            "tags",
            "cases",
            "batch",
            "requests",
        }
        required |= {"context_len", "query_len", "block_size", "id", "reason", "verdict", "case", "expected"}
        required |= set(OPERATIONS["position_ids"])
        tried = 0
        for place in places(self.read(text))[1:]:
            changed = self.read(text)
            if place[-1] in required and not self.open(place[:-1]):
                del at(changed, place[:-1])[place[-1]]
                assert found(changed), place
                tried += 1
        assert tried >= 8

    def test_a_value_of_another_type(self, text: str) -> None:
        for place in places(self.read(text))[1:]:
            for value in (None, 1.5, {"a": [True]}):
                changed = self.read(text)
                fits = (place[-1], type(value)) in (("finding", dict), ("row_index", type(None)))
                if fits or self.open(place[:-1]):
                    continue
                at(changed, place[:-1])[place[-1]] = value
                assert found(changed), (place, value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("batch.block_size", 0),
        ("batch.block_size", 2**20 + 1),
        ("batch.requests[0].block_ids[0]", -2),
        ("batch.requests[0].phase", "verify"),
        ("layout.row_index[0]", -2),
        ("layout.garbage", "noise"),
        ("layout.key_row_gap", 2**40 + 1),
        ("version", 2),
    ],
)
def test_a_value_out_of_range_is_refused_as_the_reader_refuses_it(field: str, value: object) -> None:
    changed = to_json(SMALL)
    *outer, last = (int(key) if key.isdigit() else key for key in re.findall(r"\w+", field))
    at(changed, tuple(outer))[last] = value
    assert found(changed)
    with pytest.raises(ValueError, match=re.escape(field)):
        from_json(copy.deepcopy(changed))


def test_verdicts_and_expected_outputs_go_together() -> None:
    changed = fixture_file("position_ids")
    refused = next(case for case in changed["cases"] if case["verdict"] == "invalid")
    refused["verdict"] = "valid"
    assert found(changed)


def test_the_outputs_are_those_of_the_operation() -> None:
    changed = fixture_file("position_ids")
    changed["operation"] = "slot_mapping"
    assert found(changed)
