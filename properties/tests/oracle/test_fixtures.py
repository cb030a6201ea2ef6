"""Fixtures: oracles and simulations agree with them, broken ones do not."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cumae.fixtures import OPERATIONS, Fixture, load, load_tags
from cumae.fixtures.edge_cases import TAGS
from cumae.fixtures.write import main
from cumae.oracle import ANY, UNTOUCHED, Inputs, from_json
from cumae.properties.tests.broken.oracles import BROKEN, Broken
from cumae.properties.tests.helpers.fixture_files import installed
from cumae.properties.tests.simulation.simulated import ORACLES, oracle_answer, simulated_answer
from cumae.properties.tests.simulation.tokens import Answer

FIXTURES = [(operation, fixture) for operation in OPERATIONS for fixture in load(operation)]
ANSWERED = [pair for pair in FIXTURES if pair[1].verdict != "invalid"]
REFUSED = [pair for pair in FIXTURES if pair[1].verdict == "invalid"]
WORDS = {ANY: "any", UNTOUCHED: "untouched"}


def plain(fixture: Fixture) -> Answer:
    """Return the expected outputs as oracle and simulation give them."""
    assert fixture.expected is not None
    return {name: [WORDS.get(value, value) for value in values] for name, values in fixture.expected.items()}


def named(value: object) -> str | None:
    return value.id if isinstance(value, Fixture) else None


@pytest.mark.parametrize(("operation", "fixture"), ANSWERED, ids=named)
class TestAnswers:
    def test_the_oracle_agrees(self, operation: str, fixture: Fixture) -> None:
        assert fixture.case is not None
        assert oracle_answer(ORACLES[operation], fixture.case) == plain(fixture)

    def test_the_simulation_agrees(self, operation: str, fixture: Fixture) -> None:
        assert fixture.case is not None
        assert simulated_answer(operation, fixture.case) == plain(fixture)


@pytest.mark.parametrize(("operation", "fixture"), REFUSED, ids=named)
def test_an_invalid_case_is_refused_with_its_error(operation: str, fixture: Fixture) -> None:
    assert fixture.case is None and fixture.expected is None and fixture.error
    with pytest.raises(ValueError, match=re.escape(fixture.error)):
        Inputs(from_json(fixture.raw)).call(ORACLES[operation])


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.oracle.__name__)
def test_a_fixture_with_the_tag_shows_the_fault(broken: Broken) -> None:
    shown = [
        fixture.id
        for fixture in load(broken.operation)
        if broken.tag in fixture.tags
        and fixture.case is not None
        and oracle_answer(broken.oracle, fixture.case) != plain(fixture)
    ]
    assert shown


class TestReading:
    def test_an_operation_without_fixtures_is_refused(self) -> None:
        with pytest.raises(ValueError, match="operation = 'rope', must be one of 'sequence_layout'"):
            load("rope")

    def test_ids_are_words_and_stand_once_in_their_file(self) -> None:
        for operation in OPERATIONS:
            ids = [fixture.id for fixture in load(operation)]
            assert len(set(ids)) == len(ids)
            assert all(re.fullmatch(r"[a-z0-9]+(_[a-z0-9]+)+", id) for id in ids)

    def test_reasons_are_not_copied(self) -> None:
        for operation in OPERATIONS:
            reasons = [f.reason for f in load(operation) if not f.id.startswith("garbage_")]
            assert len(set(reasons)) == len(reasons)

    def test_every_explained_tag_is_used_by_some_operation(self) -> None:
        assert set(TAGS) == {tag for operation in OPERATIONS for tag in load_tags(operation)}

    def test_operations_and_outputs_are_those_of_the_oracle(self) -> None:
        judged_whole = "any_schedule"  # its rule has no values to write down
        assert list(OPERATIONS) == [name for name in ORACLES if name != judged_whole]

    def test_a_json_reader_that_knows_nothing_of_us_reads_the_same(self) -> None:
        for operation in OPERATIONS:
            cases = json.loads(installed(operation))["cases"]
            assert [case["id"] for case in cases] == [fixture.id for fixture in load(operation)]

    def test_the_command_writes_every_file(self, tmp_path: Path) -> None:
        main([str(tmp_path)])
        assert {file.stem: file.read_text(encoding="utf-8") for file in tmp_path.iterdir()} == {
            name: installed(name) for name in ("schema", *OPERATIONS)
        }

    def test_the_command_runs_as_a_module(self, tmp_path: Path) -> None:
        command = [sys.executable, "-m", "cumae.fixtures.write", str(tmp_path)]
        subprocess.run(command, check=True, timeout=60)
        assert len(list(tmp_path.iterdir())) == len(OPERATIONS) + 1
