"""Reports: causes that can be told and those that cannot, drawings, pictures, the page that explains them."""

import json
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from cumae.oracle import Batch, Case, Inputs, Layout, Options, Request, leveled, slot_mapping, to_json
from cumae.properties.commands.usage.draw import draw as draw_command
from cumae.properties.operations.binding import binding_of
from cumae.properties.operations.drawn import seeded
from cumae.properties.operations.table import OPERATIONS
from cumae.properties.operations.targets import load_function
from cumae.properties.results.answer import answer_lines
from cumae.properties.results.canvas import WIDTH
from cumae.properties.results.drawing import COLUMNS, draw
from cumae.properties.results.explain import explain
from cumae.properties.results.failure_file import save_failure
from cumae.properties.results.marks import marks_of, place_text
from cumae.properties.results.steps import draw_steps
from cumae.properties.results.svg import svg
from cumae.properties.results.verdict import Failure, Finding, Verdict
from cumae.properties.running.device import prepare
from cumae.properties.search.budget import Budget
from cumae.properties.search.first_cases import fixture_cases
from cumae.properties.search.loop import search
from cumae.properties.tests.helpers.guessed import BUG, CASE, finding_of

DEVICE = prepare("auto")
PAGE = Path(__file__).parents[2] / "results" / "reading-a-failure.md"


def finding(index: int, axis: str, output: str, expected: str = "", actual: str = "") -> Finding:
    return Finding(
        "agrees", f"`{output}[{index}]` differs", "rule", output, index, expected, actual, axis=axis
    )


LONG = Case(Batch((Request(1900, 100, tuple(range(1000, 1125))), Request(20, 1, (5, 6), "decode")), 16))
MANY = Case(Batch(tuple(Request(b, 2, tuple(range(9 * b, 9 * b + 5))) for b in range(33)), 8))
DRAWN = [
    (CASE, None),
    (CASE, finding(0, "window_stop", "ke", "4", "1")),
    (CASE, finding(3, "window_start", "ks", "11", "-70")),
    (CASE, finding(2, "slot", "slot_mapping", "29", str(2**40))),
    (CASE, finding(3, "request_start", "cu_seqlens_k", "23", "6")),
    (CASE, finding(7, "key_row", "keys", "00 …", "01 …")),
    (replace(CASE, layout=Layout(num_padding_tokens=500)), finding(300, "token", "position_ids", "0", "9")),
    (LONG, finding(57, "window_stop", "ke", "1958", "3")),
    (MANY, finding(60, "slot", "slot_mapping", "5", "6")),
    (Case(Batch((), 1)), None),
]


def test_an_entry_of_a_token_is_told_with_the_position_that_it_selects() -> None:
    case = replace(CASE, options=Options.of(topk=2))
    found = finding(5, "selected_key", "selected_slots")
    selected = Inputs(case)["selected_positions"][2][1]
    place = "entry 1 of token 2: request 1, position 5, block 2"
    assert place_text(case, found) == f"{place}; it selects position {selected}"
    assert marks_of(case, found).positions == {1: frozenset({5})}
    found = finding(7, "expert", "expert_ids")
    assert place_text(case, found) == "entry 1 of token 3: request 2, position 9, block 13"


class TestDrawing:
    @pytest.mark.parametrize("case, found", DRAWN)
    def test_a_drawing_fits_100_columns_and_shows_what_is_wrong(
        self, case: Case, found: Finding | None
    ) -> None:
        drawn = draw(case, found)
        assert max(map(len, drawn.splitlines())) <= COLUMNS
        assert drawn.count("✗") == (0 if found is None else 2)

    def test_window_of_the_first_wrong_token_in_brackets(self) -> None:
        drawn = draw(CASE, finding(0, "window_stop", "ke", "4", "1"))
        assert "expected  [████]·······" in drawn
        assert "actual    [█]··········" in drawn

    def test_slots_as_block_and_offset(self) -> None:
        drawn = draw(CASE, finding(2, "slot", "slot_mapping", "9", "5"))
        assert "expected  9 = 2:1, position 5 of request 1" in drawn
        assert "actual    5 = 1:1, position 5 of request 0" in drawn

    def test_a_wrong_request_among_many_is_drawn(self) -> None:
        drawn = draw(MANY, finding(60, "slot", "slot_mapping", "5", "6"))
        assert "request 30" in drawn and "more requests" in drawn and "request 29" not in drawn

    def test_requests_with_tokens_are_drawn_first(self) -> None:
        empty = (Request(0, 0),) * 40
        drawn = draw(Case(Batch((*empty, Request(7, 0, (0, 1)), *empty), 4)))
        assert "request 40  prefill  7 + 0" in drawn and drawn.count("(no tokens)") == 11

    def test_a_step_without_host_lens_says_so(self) -> None:
        drawn = draw_steps(leveled([CASE.laid_out(host_lens=False), CASE]))
        assert drawn.count("the host has no lengths") == 1 and "no lengths" in drawn.splitlines()[0]

    def test_shared_blocks_have_a_star(self) -> None:
        case = Case(Batch((Request(4, 1, (7, 1)), Request(4, 1, (7, 2))), 4))
        assert "|7*:░░░░|1:█|" in draw(case)


class TestPictures:
    @pytest.mark.parametrize("case, found", DRAWN)
    def test_an_svg_is_well_formed_and_stays_inside(self, case: Case, found: Finding | None) -> None:
        root = ElementTree.fromstring(svg(case, found))
        height = float(root.attrib["height"])
        for element in root:
            x, y = float(element.attrib.get("x", 0)), float(element.attrib.get("y", 0))
            assert 0 <= x <= WIDTH and 0 <= y <= height
            width = 7.3 * len(element.text or "") if element.tag.endswith("text") else 0.0
            if element.attrib.get("text-anchor") == "start":
                assert x + width * (0.84 if "small" in element.attrib["class"] else 1) <= WIDTH

    def test_a_pointer_on_a_token_shows_the_oracles_slot(self) -> None:
        for seed in range(60):
            case = seeded("slot_mapping", seed)
            slots = Inputs(case).call(slot_mapping).slot_mapping
            titles = re.findall(
                r"<title>token (\d+), new: request \d+, position \d+, (.*)</title>", svg(case)
            )
            for token, said in titles:
                slot = slots[int(token)]
                assert said.startswith(f"slot {slot} (" if slot >= 0 else ("no slot", "held by another rank"))

    def test_a_pointer_on_a_long_request_shows_its_ranges(self) -> None:
        drawn = svg(LONG)
        assert "<title>cached: request 0, positions 0 to 1899</title>" in drawn
        assert "<title>tokens 0 to 99, new: request 0, positions 1900 to 1999</title>" in drawn

    def test_an_svg_names_both_colour_schemes(self) -> None:
        assert "prefers-color-scheme:dark" in svg(CASE)


class TestDrawCommand:
    def run(self, *arguments: str) -> str:
        done = CliRunner().invoke(draw_command, list(arguments), standalone_mode=False)
        if done.exception is not None:
            raise done.exception
        return done.output

    def test_a_plain_case_is_drawn_and_nothing_is_written(self, tmp_path: Path) -> None:
        file = tmp_path / "case.json"
        file.write_text(json.dumps(to_json(CASE)))
        assert "request 1  decode   5 + 1  |7:░░░░|2:░█|" in self.run(str(file))
        assert list(tmp_path.iterdir()) == [file]

    def test_a_saved_failure_marks_its_first_element_and_is_written(self, tmp_path: Path) -> None:
        bug = BUG["key_offsets_as_rows"]
        verdict = Verdict(bug.target, bug.operation, bug.dialect, ("agrees",))
        file = save_failure(tmp_path, verdict, Failure(finding(1, "window_stop", "ke"), CASE, 1))
        page, picture = tmp_path / "page.html", tmp_path / "picture.svg"
        output = self.run(str(file), "--svg", str(picture), "--html", str(page))
        assert "at token 1: request 0, position 4, block 1" in output
        assert "|4:░░░█|1:✗|" in output
        assert "window_stop" not in picture.read_text()
        words = "`ke[1]` differs"
        assert words in picture.read_text()
        assert page.read_text().count(words) == page.read_text().count("rule: ") == 1
        assert not re.search("[░█]", page.read_text())  # the drawing in characters

    def test_a_page_tells_a_wrong_slot_once(self, tmp_path: Path) -> None:
        verdict = Verdict("some:kernel", "slot_mapping", "cumae", ("agrees",))
        found = finding(2, "slot", "slot_mapping", "29", str(2**40))
        file = save_failure(tmp_path, verdict, Failure(found, CASE, 1))
        page = tmp_path / "page.html"
        self.run(str(file), "--html", str(page))
        assert page.read_text().count(str(2**40)) == 1

    def test_a_seeded_case_is_drawn_with_its_expected_answer(self, tmp_path: Path) -> None:
        output = self.run("--op", "slot_mapping", "--seed", "3")
        case = seeded("slot_mapping", 3)
        drawn = [line for line in output.splitlines() if line.startswith("  request ")]
        assert len(drawn) == len(case.batch.requests)
        told = re.findall(r"\[([-0-9, ]+)\]", output.partition("expected of slot_mapping:")[2])
        slots = [int(slot) for part in told for slot in part.split(", ")]
        assert slots == Inputs(case).call(slot_mapping).slot_mapping
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("arguments", [(), ("case.json", "--op", "slot_mapping")])
    def test_a_file_or_an_operation_is_drawn(self, arguments: tuple[str, ...]) -> None:
        with pytest.raises(ValueError, match=r"^FILE = .*, must be given, or --op for a seeded case"):
            self.run(*arguments)

    @pytest.mark.parametrize(
        ("content", "rule"),
        [
            ("[1]", r"case\.json\[0\] = 1, must be an object"),
            ("{", r"content, must be JSON"),
            ('{"version": 9, "batch": {}}', r"case\.json\.version = 9, must be 1"),
        ],
    )
    def test_bad_input_names_field_value_and_rule(self, content: str, rule: str, tmp_path: Path) -> None:
        file = tmp_path / "case.json"
        file.write_text(content)
        with pytest.raises(ValueError, match=rule):
            self.run(str(file))

    def test_an_output_folder_must_exist(self, tmp_path: Path) -> None:
        file = tmp_path / "case.json"
        file.write_text(json.dumps(to_json(CASE)))
        with pytest.raises(ValueError, match=r"--svg = '.*nowhere.*', must be a file that can be written: "):
            self.run(str(file), "--svg", str(tmp_path / "nowhere" / "out.svg"))


def test_the_page_shows_a_report_as_the_code_prints_it(tmp_path: Path) -> None:
    bug = BUG["key_offsets_as_rows"]
    binding = binding_of(load_function(bug.target), bug.operation, bug.dialect)
    verdict = search(binding, DEVICE, Budget(examples=100), first=fixture_cases(binding), save_to=tmp_path)
    assert verdict.failure is not None
    found = finding_of(binding, verdict.failure.case)
    assert found is not None
    verdict.failure = replace(verdict.failure, finding=replace(verdict.failure.finding, cause=found.cause))

    def without_run(report: str) -> str:
        report = re.sub(r"found after \d+ cases?", "found after N cases", report)
        report = re.sub(r"replay \S*/", "replay ", report)
        report = re.sub(r"'cumae1:\S+'", "'cumae1:…'", report)
        return re.sub(r"versions: .*", "versions: …", report)

    shown = re.search(r"```console\n\$ cumae fuzz [^\n]*\n…\n(.*?)\n…\n```", PAGE.read_text(), re.S)
    assert shown is not None
    assert without_run(shown[1]) == without_run(explain(verdict))
    assert f"$ cumae fuzz {bug.target} --op {bug.operation} --dialect {bug.dialect}" in PAGE.read_text()


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_has_an_answer_that_can_be_printed(name: str) -> None:
    for seed in range(5):
        case = seeded(OPERATIONS[name], seed)
        lines = answer_lines(OPERATIONS[name], case)
        assert len([line for line in lines if line[4:5].strip()]) >= len(OPERATIONS[name].outputs)
