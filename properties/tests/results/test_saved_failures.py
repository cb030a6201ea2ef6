"""A saved failure belongs to a function under a dialect and a domain, and to no other."""

from dataclasses import replace
from pathlib import Path

import torch

from cumae import Domain, check
from cumae.properties.dialects import DIALECTS, DialectName
from cumae.properties.operations.binding import binding_of
from cumae.properties.results.failure_file import load_failure
from cumae.properties.results.verdict import Verdict
from cumae.properties.running.device import prepare
from cumae.properties.search.first_cases import first_cases, fixture_cases
from cumae.properties.tests.functions import wrong_on_purpose as wrong
from cumae.properties.tests.functions.wrong_on_purpose import right_positions
from cumae.properties.tests.helpers.command_line import cumae

prepare("auto")
NARROW = Domain(max_requests=1, block_sizes=(1, 2))


def wrong_beyond_one_request(
    token_to_request: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    context_lens: torch.Tensor,
    position_ids: torch.Tensor,
) -> None:
    """Right, but for steps of several requests."""
    position_ids.copy_(right_positions(token_to_request, cu_seqlens_q, context_lens))
    if (token_to_request > 0).any():
        position_ids += 1


def found_by(domain: Domain | None, folder: Path, dialect: DialectName = "cumae") -> Verdict:
    function = wrong_beyond_one_request
    return check(
        function,
        "position_ids",
        dialect=dialect,
        domain=domain,
        checks=["agrees"],
        examples=20,
        save_to=folder,
    )


def test_a_case_outside_the_domain_is_neither_run_nor_counted(tmp_path: Path) -> None:
    assert not found_by(None, tmp_path)
    (file,) = tmp_path.glob("*.json")
    assert load_failure(file).domain == ""
    narrow = found_by(NARROW, tmp_path)
    assert narrow.ok and narrow.not_promised == 0
    binding = binding_of(wrong_beyond_one_request, "position_ids", domain=NARROW)
    assert first_cases(binding, binding.name, tmp_path) == fixture_cases(binding)


def test_a_file_says_under_which_domain_it_was_found_and_each_has_its_own(tmp_path: Path) -> None:
    assert not found_by(None, tmp_path)
    assert not found_by(Domain(max_requests=7), tmp_path)
    said = sorted(load_failure(file).domain for file in tmp_path.glob("*.json"))
    assert said == ["", "max_requests=7"]
    again = found_by(Domain(max_requests=8), tmp_path)  # promises both of the cases
    assert again.failure is not None and again.failure.found_after == 1


def test_a_failure_under_another_dialect_is_not_tried(tmp_path: Path) -> None:
    binding = binding_of(wrong.one_too_far, "position_ids")
    assert not check(wrong.one_too_far, "position_ids", checks=["agrees"], save_to=tmp_path)
    assert len(first_cases(binding, binding.name, tmp_path)) == len(fixture_cases(binding)) + 1
    mine = replace(binding, dialect=replace(DIALECTS["cumae"], name="mine"))
    assert first_cases(mine, mine.name, tmp_path) == fixture_cases(mine)


def test_what_a_dialect_reserves_is_no_domain_of_ones_own(tmp_path: Path) -> None:
    def raises(query_start_loc: torch.Tensor, positions: torch.Tensor) -> None:
        raise RuntimeError("no such step")

    verdict = check(raises, "position_ids", dialect="vllm", checks=["agrees"], save_to=tmp_path)
    assert verdict.failure is not None and verdict.failure.file is not None
    assert load_failure(verdict.failure.file).dialect == "vllm"
    assert verdict.domain == ""


RAISES = """
import torch
from cumae import Domain, conforms_to

@conforms_to("position_ids", domain=Domain(captured=False))
def test_raises(num_requests, context_lens, query_lens, position_ids):
    if num_requests == 0 or int(query_lens.sum()) < position_ids.numel():
        raise IndexError
    lens = zip(context_lens.tolist(), query_lens.tolist())
    position_ids.copy_(torch.cat([torch.arange(start, start + count) for start, count in lens]))
"""


def test_fuzz_replay_and_draw_name_the_same_promises(tmp_path: Path) -> None:
    (tmp_path / "raises.py").write_text(RAISES)
    found = cumae("fuzz", "raises.py:test_raises", "--check", "agrees", "--cases", "30", cwd=tmp_path)
    (file,) = (tmp_path / ".cumae/failures").glob("*.json")
    seen_again = cumae("replay", str(file), cwd=tmp_path), cumae("draw", str(file), cwd=tmp_path)
    for ran in (found, *seen_again):
        (told,) = [line for line in ran.stdout.splitlines() if "if no engine makes such a call" in line]
        assert told.endswith("which is not enough: other cases fail, too")
