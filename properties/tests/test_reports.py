"""Reports: causes that can be told and those that cannot, drawings, pictures, the page that explains them."""

import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner

from cumae import oracle
from cumae.fixtures.bugs import BUGS
from cumae.oracle import Batch, Case, Inputs, Layout, Options, Request, to_json
from cumae.properties.budget import Budget
from cumae.properties.checks import Trial
from cumae.properties.checks.cause import Extent, Guess, likely_cause, rounding_guesses
from cumae.properties.checks.compare import wrong_extent, wrong_values
from cumae.properties.commands.draw import draw as draw_command
from cumae.properties.conformance import binding_of, fixture_cases
from cumae.properties.failure_file import save_failure
from cumae.properties.reports.canvas import WIDTH
from cumae.properties.reports.drawing import COLUMNS, draw
from cumae.properties.reports.explain import explain
from cumae.properties.reports.svg import svg
from cumae.properties.running.binding import Binding
from cumae.properties.running.device import prepare
from cumae.properties.search import search
from cumae.properties.targets import load_function
from cumae.properties.tests import wrong_on_purpose as wrong
from cumae.properties.verdict import Failure, Finding, Verdict

DEVICE = prepare("auto")
REQUESTS = (
    Request(3, 2, (4, 1), "prefill"),
    Request(5, 1, (7, 2), "decode"),
    Request(9, 3, (11, 12, 13), "prefill"),
)
CASE = Case(Batch(REQUESTS, 4))
PAGE = Path(__file__).parents[1] / "reports" / "reading-a-failure.md"
BUG = {bug.target.rpartition(":")[2]: bug for bug in BUGS}


def finding_of(binding: Binding, case: Case) -> Finding | None:
    """Return what ``agrees`` or ``writes_everything`` finds, the case at hand for a cause."""
    trial = Trial(binding, case, DEVICE)
    first, ran = trial.first, trial.quiet.case
    found = wrong_values("agrees", binding, first, trial.expected, ran)
    return found or wrong_extent("writes_everything", binding, first, trial.second, trial.expected, ran)


def cause_of(function: Callable[..., Any], operation: str, case: Case = CASE, dialect: str = "cumae") -> str:
    finding = finding_of(binding_of(function, operation, dialect), case)
    assert finding is not None
    return finding.cause


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
    def test_one_too_far_is_off_by_one(self) -> None:
        assert cause_of(wrong.one_too_far, "position_ids") == "off by one: 1 too large"

    def test_a_guard_word_is_stale(self) -> None:
        def reads_behind(context_lens: torch.Tensor, position_ids: torch.Tensor) -> None:
            position_ids.copy_(torch.tensor(POSITIONS))
            behind = context_lens.as_strided((1,), (1,), context_lens.storage_offset() + len(context_lens))
            position_ids[2] = behind[0]

        assert cause_of(reads_behind, "position_ids").startswith("stale: ")

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
        cause = "another row's: each holds what belongs to the row after it"
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
        case = Case(Batch((Request(4, 4, (4, 1)),), 4), options=Options(compress_ratio=4))

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

        assert cause_of(doubles, "sequence_layout") == "counts twice: each is double"

    def test_a_context_added_twice(self) -> None:
        twice = oracle.position_ids([6, 10, 18], [2, 1, 3], 6).position_ids
        cause = "counts twice: the context is added twice"
        assert cause_of(writing_positions(twice), "position_ids") == cause

    def test_the_managers_block_size_in_the_kernels_table(self) -> None:
        case = replace(CASE, options=Options(kernel_block_size=2))
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

    def test_keys_from_nowhere_have_no_cause(self) -> None:
        def sevens(cache: torch.Tensor, keys: torch.Tensor) -> None:
            keys.fill_(7)

        assert cause_of(sevens, "prefix_interleave") == ""


def finding(index: int, axis: str, output: str, expected: str = "", actual: str = "") -> Finding:
    return Finding(
        "agrees", f"`{output}[{index}]` differs", "rule", output, index, expected, actual, axis=axis
    )


LONG = Case(Batch((Request(1900, 100, tuple(range(1000, 1125))), Request(20, 1, (5, 6), "decode")), 16))
MANY = Case(Batch(tuple(Request(b, 2, tuple(range(9 * b, 9 * b + 5))) for b in range(33)), 8))
DRAWN = [
    (CASE, None),
    (CASE, finding(0, "token", "ke", "4", "1")),
    (CASE, finding(3, "token", "ks", "11", "-70")),
    (CASE, finding(2, "slot", "slot_mapping", "29", str(2**40))),
    (CASE, finding(3, "request_start", "cu_seqlens_k", "23", "6")),
    (CASE, finding(7, "key_row", "keys", "00 …", "01 …")),
    (replace(CASE, layout=Layout(num_padding_tokens=500)), finding(300, "token", "position_ids", "0", "9")),
    (LONG, finding(57, "token", "ke", "1958", "3")),
    (MANY, finding(60, "slot", "slot_mapping", "5", "6")),
    (Case(Batch((), 1)), None),
]


class TestDrawing:
    @pytest.mark.parametrize("case, found", DRAWN)
    def test_a_drawing_fits_100_columns_and_shows_what_is_wrong(
        self, case: Case, found: Finding | None
    ) -> None:
        drawn = draw(case, found)
        assert max(map(len, drawn.splitlines())) <= COLUMNS
        assert drawn.count("✗") == (1 if found is None else 2)

    def test_window_of_the_first_wrong_token_in_brackets(self) -> None:
        drawn = draw(CASE, finding(0, "token", "ke", "4", "1"))
        assert "expected  [████]·······" in drawn
        assert "actual    [█]··········" in drawn

    def test_slots_as_block_and_offset(self) -> None:
        drawn = draw(CASE, finding(2, "slot", "slot_mapping", "9", "5"))
        assert "expected  9 = 2:1, position 5 of request 1" in drawn
        assert "actual    5 = 1:1, position 5 of request 0" in drawn

    def test_a_wrong_request_among_many_is_drawn(self) -> None:
        drawn = draw(MANY, finding(60, "slot", "slot_mapping", "5", "6"))
        assert "request 30" in drawn and "more requests" in drawn and "request 29" not in drawn

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
        file = save_failure(tmp_path, verdict, Failure(finding(1, "token", "ke"), CASE, 1))
        page, picture = tmp_path / "page.html", tmp_path / "picture.svg"
        output = self.run(str(file), "--svg", str(picture), "--html", str(page))
        assert "at token 1: request 0, position 4, block 1" in output
        assert "|4:░░░█|1:✗|" in output
        assert picture.read_text() in page.read_text()

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
        with pytest.raises(ValueError, match=r"folder = '.*nowhere', must exist"):
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
        return re.sub(r"replay \S*/", "replay ", report)

    shown = re.search(r"```console\n\$ cumae fuzz [^\n]*\n…\n(.*?)\n…\n```", PAGE.read_text(), re.S)
    assert shown is not None
    assert without_run(shown[1]) == without_run(explain(verdict))
    assert f"$ cumae fuzz {bug.target} --op {bug.operation} --dialect {bug.dialect}" in PAGE.read_text()
