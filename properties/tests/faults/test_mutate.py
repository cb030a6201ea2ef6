"""Faults are injected one at a time, noticed, and told apart from what is no fault."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from cumae import oracle
from cumae.properties.commands.main import cli
from cumae.properties.faults.equality import SmallDomain
from cumae.properties.faults.judges import How, Target, Task, judged, tasks_of
from cumae.properties.faults.mutants import Mutant, mutants_of, swapped
from cumae.properties.faults.oracle_suite import OracleSuite
from cumae.properties.faults.suite import LARGE, Suite
from cumae.properties.running.device import prepare
from cumae.properties.running.run_probe import fault_of
from cumae.properties.search.process import Call
from cumae.properties.search.processes import Processes, asked
from cumae.properties.tests.functions import mutated

DEVICE = prepare("auto")
TARGET = "cumae.properties.tests.functions.mutated:write_positions"
DIES = "cumae.properties.tests.functions.mutated:Dies"
MUTANTS = mutants_of(mutated.write_positions)
on_the_cpu = pytest.mark.skipif(
    DEVICE == "cuda", reason="a mutant may lose the CUDA context of the process it runs in"
)


def one(operator: str, before: str, after: str) -> Mutant:
    """Return the mutant of the test's kernel that an operator makes of a line."""
    found = [m for m in MUTANTS if m.operator == operator and before in m.before and after in m.after]
    assert len(found) == 1, [m.diff for m in MUTANTS if m.operator == operator]
    return found[0]


def suite(checks: tuple[str, ...] | None = None, limit: float = 5.0) -> Suite:
    return Suite(TARGET, "position_ids", "cumae", DEVICE, limit=limit, checks=checks)


@on_the_cpu
@pytest.mark.parametrize(
    ("operator", "before", "after", "check"),
    [
        ("choice dropped", "tl.where(", "o_token, 0, mask", "agrees"),
        ("comparison swapped", "m_token = o_token <", "o_token <= num", "stays_in_bounds"),
        ("bound moved by one", "m_token = o_token <", "num_tokens - 1", "writes_everything"),
    ],
)
def test_a_mutant_is_killed_by_the_check_that_is_there_for_it(
    operator: str, before: str, after: str, check: str
) -> None:
    outcome = suite((check,)).kill(one(operator, before, after))
    assert outcome is not None and (outcome.status, outcome.by) == ("killed", check)


@on_the_cpu
def test_a_weak_list_of_checks_lets_a_mutant_survive() -> None:
    assert suite(("stays_in_bounds",)).kill(one("choice dropped", "tl.where(", "o_token, 0, mask")) is None


@on_the_cpu
def test_a_mutant_that_hangs_is_killed_by_the_limit() -> None:
    outcome = suite(limit=0.5).kill(one("statement deleted", "num_tiles += 1", "pass"))
    assert outcome is not None and outcome.by == "time limit"


@on_the_cpu
def test_a_target_that_is_wrong_is_not_mutated() -> None:
    target = "cumae.properties.tests.functions.wrong_on_purpose:one_too_far"
    wrong = Suite(target, "position_ids", "cumae", DEVICE)
    with pytest.raises(ValueError, match=r"must be right before it is mutated: agrees"):
        wrong.refuse_a_wrong_target()


@on_the_cpu
def test_on_the_small_domain_every_case_is_compared() -> None:
    domain = SmallDomain(suite())
    equal = domain.compare(one("operand dropped", "start = 1 *", "start = tl.load"))
    assert (equal.status, equal.cases) == ("equal on the small domain", domain.size)
    assert "tiles cut to 2" in equal.by
    differs = domain.compare(one("only the first program launched", "_write[", "[(1,)]"))
    assert (differs.status, differs.by) == ("killed", "writes_everything, small domain")


@on_the_cpu
def test_a_mutant_without_an_answer_on_the_small_domain_is_killed() -> None:
    domain = SmallDomain(suite(limit=2.0))
    endless = domain.compare(one("statement deleted", "num_tiles += 1", "pass"))
    assert (endless.status, endless.by) == ("killed", "time limit, small domain")


@on_the_cpu
def test_on_the_small_domain_more_requests_stand_than_a_tile_cut_to_two_holds() -> None:
    target = "cumae.gpu_impl:write_flat_decodes"
    domain = SmallDomain(Suite(target, "flat_decodes", "cumae", DEVICE))
    files = {module for module, _ in domain._lines}
    assert "tiles cut to 2" in domain.described and "cumae.gpu_impl.tile_ends" in files


@on_the_cpu
def test_a_case_may_take_eight_times_what_the_target_itself_takes() -> None:
    judge = suite(limit=60.0)
    judge.refuse_a_wrong_target()
    outcome = judge.kill(one("statement deleted", "num_tiles += 1", "pass"))
    assert outcome is not None and outcome.by == "time limit"
    assert float(outcome.message.split()[-2]) < judge.limit


def test_every_kind_of_a_case_longer_than_a_tile_is_among_the_large_ones() -> None:
    cases = Suite("cumae.gpu_impl:write_sequence_layout", "sequence_layout", "cumae", DEVICE)._large
    assert all(any(kind(case) for case in cases) for kind in LARGE)
    assert any(len(case.batch.requests) > 1000 and not case.batch.num_tokens for case in cases)


def test_a_target_meets_more_requests_than_its_largest_tile_holds() -> None:
    (case,) = Suite("cumae.gpu_impl:write_flat_decodes", "flat_decodes", "cumae", DEVICE)._far
    assert len(case.batch.requests) == 4099 and case.batch.num_tokens > 4099
    assert case.layout.num_padding_requests > 0
    assert not suite()._far


def test_killed_and_equivalent_mutants_are_told_apart() -> None:
    target = Target(TARGET, "position_ids")
    killed = one("bound moved by one", "m_token = o_token <", "num_tokens - 1")
    same = one("operand dropped", "start = 1 *", "start = tl.load")
    outcomes = dict(judged([Task((target,), killed), Task((target,), same)], How(DEVICE), 1, lambda *_: None))
    records = DEVICE == "cpu" or not fault_of("interpreter")
    assert outcomes[0].status == "killed"
    assert outcomes[1].status == ("equivalent" if records else "equal on the small domain")
    assert outcomes[1].by.startswith("same TTIR for " if records else "all steps of at most 2 requests")


def test_what_two_targets_share_is_mutated_once_and_judged_by_both() -> None:
    names = ("write_causal_windows", "write_packed_causal_windows")
    targets = [Target(f"cumae.gpu_impl:{name}", "causal_windows") for name in names]
    tasks = tasks_of(targets)
    assert len({task.mutant for task in tasks}) == len(tasks)
    shared = {task.mutant.name for task in tasks if task.targets == tuple(targets)}
    kernels = {"_write_windows", "find_windows", "_num_owned", "wait_for_kernel_before"}
    assert shared == {"write_causal_windows", *kernels}


def test_a_process_that_dies_takes_one_mutant_with_it() -> None:
    with Processes(DIES) as processes:
        answers = dict(processes.each([asked(Call("judge", status)) for status in (0, 3, 0)]))
    assert [answers[i].result for i in range(3)] == ["alive", None, "alive"]
    assert [answers[i].death for i in range(3)] == ["", "the process ended with exit status 3", ""]


def test_a_process_of_no_more_use_is_replaced_and_loses_no_task() -> None:
    with Processes(DIES) as processes:
        answers = dict(processes.each([asked(Call("last", number)) for number in range(3)]))
    numbers, pids = zip(*(answers[i].result for i in range(3)), strict=True)
    assert numbers == (0, 1, 2)
    assert pids[0] == pids[1] != pids[2]


@on_the_cpu
def test_a_process_whose_mutant_was_stopped_judges_no_other() -> None:
    stopped = suite()
    assert not stopped.is_lost
    stopped.kill(one("statement deleted", "num_tiles += 1", "pass"))
    assert stopped.is_lost


def test_what_keeps_its_answers_is_mutated_and_answers_anew() -> None:
    grouped_topk = oracle.grouped_topk
    by_function = {mutant.function: mutant for mutant in mutants_of(grouped_topk)}
    how: Any = {"num_groups": 1, "topk_group": 1, "top_k": 1, "scaling_factor": 1.0, "renormalize": False}
    right = grouped_topk([[0.5, 0.25]], [0.0, 0.0], **how)
    assert {"_routed", "sigmoid"} <= by_function.keys()
    with swapped(by_function["sigmoid"]):
        assert grouped_topk([[0.5, 0.25]], [0.0, 0.0], **how) != right
    assert grouped_topk([[0.5, 0.25]], [0.0, 0.0], **how) == right


def test_every_mutant_of_an_oracle_is_noticed() -> None:
    judge = OracleSuite("cumae.oracle:position_ids")
    judge.refuse_a_wrong_target()
    outcomes = [judge.kill(mutant) or judge.compare(mutant) for mutant in mutants_of(oracle.position_ids)]
    assert len(outcomes) > 10
    assert {outcome.status for outcome in outcomes} <= {"killed", "equal on the small domain"}
    assert vars(sys.modules["cumae.oracle"])["position_ids"] is oracle.position_ids


def test_an_oracle_without_a_kernel_is_compared_on_the_small_domain_too() -> None:
    judge = OracleSuite("cumae.oracle:any_chunks")
    text = "num_rows + rows > workspace_tokens"
    (mutant,) = [m for m in mutants_of(oracle.any_chunks) if text in m.before and ">=" in m.after]
    assert judge.compare(mutant).status == "survived"


def test_a_function_that_is_no_oracle_is_refused() -> None:
    with pytest.raises(ValueError, match="must be the oracle of an operation"):
        OracleSuite("cumae.oracle:owns")


def test_a_run_is_resumed_where_its_file_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mutants.json"
    call = ["mutate", "cumae.oracle:position_ids", "--jobs", "1", "--json", str(file), "--resume"]
    assert cli(call, standalone_mode=False) == 0
    run = json.loads(file.read_text())
    assert run["generated"] == len(run["mutants"]) > 10
    first = run["mutants"].pop(0)
    run["mutants"][0]["status"] = "survived"
    file.write_text(json.dumps(run))
    capsys.readouterr()
    assert cli(call, standalone_mode=False) == 0
    again = json.loads(file.read_text())
    assert f", {run['generated'] - 2} of them known" in capsys.readouterr().out
    assert again["mutants"][0] == first and again["mutants"][1]["status"] != "survived"
    assert again["process_seconds"] > run["process_seconds"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([TARGET, "--op", "position_ids", "--resume"], "--resume = True, must be left out without"),
        ([TARGET], "--op = None, must name the operation"),
        ([TARGET, "--op", "rope"], "--op = 'rope', must be one of"),
        ([TARGET, "--op", "position_ids", "--check", "hopes"], "--check = 'hopes', must be one of"),
        ([TARGET, "--op", "position_ids", "--limit", "0"], "--limit = 0.0, must be"),
    ],
)
def test_a_bad_call_is_refused(arguments: list[str], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        cli(["mutate", *arguments], standalone_mode=False)
