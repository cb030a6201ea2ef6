"""Isolated processes: they serve many jobs, keep what was told before a death, and die with their parent."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cumae import Domain
from cumae.oracle import Batch, Case, Request
from cumae.properties.cases.trace_reducer import boldest, is_smaller
from cumae.properties.running.device import prepare
from cumae.properties.search import process
from cumae.properties.search.budget import Budget
from cumae.properties.search.isolated import reducing, searching
from cumae.properties.search.job import Job
from cumae.properties.search.process import Call, State
from cumae.properties.search.processes import Plan, Processes, asked
from cumae.properties.tests.search.test_isolation import steps

DEVICE = prepare("auto")
CRASHING = "cumae.properties.tests.functions.crashing"
TELLS = "cumae.properties.tests.helpers.telling:Tells"


def job(target: str, *cases: Case, **more: Any) -> Job:
    known: dict[str, Any] = {"operation": "position_ids", "device": DEVICE, "checks": ("agrees",)}
    return Job(target=target, cases=cases, **({"budget": Budget(0)} | known | more))


def test_one_process_after_the_other_tells_its_case_before_it_dies(processes: Processes) -> None:
    right = job("cumae.gpu_impl:write_position_ids", steps(1), steps(2))
    killed = job(f"{CRASHING}:killed_on_three_requests", steps(1), steps(2, 1, 3), reduce=False)
    closed = job(f"{CRASHING}:closes_what_it_does_not_own", steps(1), steps(2, 1), steps(1), reduce=False)
    small = Domain(max_requests=2, padding="none")
    promised = job(f"{CRASHING}:killed_on_three_requests", domain=small, budget=Budget(30), reduce=False)
    nameless = job(f"{CRASHING}:made.<locals>.kernel", steps(1))
    mine = job(f"{CRASHING}:leaves", steps(1), operation="mine")
    plans = [searching(one) for one in (right, killed, right, closed, promised)]
    found = dict(processes.each(plans))
    for refused, rule in (
        (nameless, "be named in its module and given as --target"),
        (mine, "be one of"),
    ):
        with pytest.raises(ValueError, match=rf"^(target|operation) = '.*', must {rule}") as told:
            processes.run(searching(refused))
        assert "\n" not in str(told.value)
    assert [found[number].status for number in range(5)] == [
        *("agrees", "disagrees", "agrees", "disagrees", "agrees")
    ]
    assert found[1].failure is not None and found[3].failure is not None
    assert found[1].failure.finding.message == "the process died with signal 9, as where memory runs out"
    assert (found[1].failure.case, found[1].cases) == (steps(2, 1, 3), 2)
    closed_all = "the process lost its connection: its file descriptors were closed"
    assert found[3].failure.finding.message == closed_all and found[3].failure.finding.ended
    assert found[3].failure.case == steps(2, 1)
    # A Domain goes with its job: three requests and more are not promised, and so never run.
    assert found[4].cases >= 30 and "max_requests=2" in found[4].domain


def test_the_smallest_case_that_was_told_is_kept_where_smaller_ones_end_the_process(
    processes: Processes,
) -> None:
    target = f"{CRASHING}:wrong_and_aborts_on_few_requests"
    first = steps(2, 1, 3)
    told: list[int] = []
    found = processes.run(searching(job(target, first, reduce=False)))
    assert found.failure is not None and not found.failure.finding.ended
    plan = reducing(
        job(target), found.failure.finding, first, progress=lambda steps, best: told.append(steps), seconds=60
    )
    smallest = processes.run(plan)
    assert isinstance(smallest.tried, Case) and smallest.tried.num_requests_padded == 2
    assert smallest.finding.message == found.failure.finding.message
    assert told == sorted(told) and told[-1] == smallest.steps > 0


def test_what_loses_the_context_is_made_smaller_in_few_processes_and_ends_no_other_search() -> None:
    losing = "cumae.properties.tests.functions.losing"
    bad = f"{losing}:loses_the_context_on_three_requests"
    cases = (steps(1), steps(2, 1, 3, 2, 5))
    right = job("cumae.gpu_impl:write_position_ids", steps(1), device="cpu")
    plans = [searching(job(bad, *cases, device="cpu")), searching(right)]
    with Processes(f"{losing}:Losing", "cpu", environment={"TRITON_INTERPRET": "1"}) as processes:
        found = dict(processes.each(plans))
        assert processes.num_dead <= 6
    failure = found[0].failure
    assert failure is not None and failure.finding.ended and failure.finding.check == "agrees"
    told = "the kernel raised RuntimeError: CUDA error: an illegal memory access was encountered"
    assert failure.finding.message.startswith(told)
    assert failure.finding.message.endswith("; the CUDA context is lost")
    assert failure.case.num_requests_padded == 3
    assert sum(request.seq_len for request in failure.case.batch.requests) == 0
    assert found[1].ok


def test_what_was_told_is_there_after_a_death_and_spares_wait_for_the_next(tmp_path: Path) -> None:
    seen: list[int] = []

    def note(told: State) -> None:
        seen.append(told["tried"])

    def plan() -> Plan[list[Any]]:
        dead = yield Call("leave", 7, seen=note)
        again = yield Call("stay", 5)
        return [dead.result, dead.death, dict(dead.told), again.result, dict(again.told)]

    with Processes(TELLS, str(tmp_path)) as processes:
        told = {"tried": 8, "other": "kept"}
        died = "the process ended with exit status 3"
        assert processes.run(plan()) == [None, died, told, 5, {}]
        deadline = time.monotonic() + 60
        while len(list(tmp_path.iterdir())) < 3 and time.monotonic() < deadline:
            time.sleep(0.05)
    assert seen == [7, 8]
    pids = [int(file.name) for file in tmp_path.iterdir()]
    assert len(pids) == 3  # the dead, the one after it, and one that waits
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_what_a_worker_raises_is_raised_in_its_plan_and_a_hang_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "WARM_SECONDS", 0.0)

    def caught(method: str) -> Plan[str]:
        try:
            answer = yield Call(method, 4, limit=0.2, patience=60)
        except (ValueError, RuntimeError) as error:
            return str(error)
        return answer.death or str(answer.result)

    with Processes(TELLS, str(tmp_path), jobs=2) as processes:
        said = dict(processes.each([caught(name) for name in ("refuse", "err", "hang", "stay")]))
        with pytest.raises(ValueError, match="number = 4, must be another"):
            processes.run(asked(Call("refuse", 4)))
    assert said[0] == "number = 4, must be another"
    assert said[1].endswith("TypeError: 4\n")
    assert (said[2], said[3]) == ("did not return within 0.2 s", "4")


def test_each_variant_of_a_case_begins_the_limit_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "WARM_SECONDS", 0.0)
    with Processes(TELLS, str(tmp_path)) as processes:
        answer = processes.run(asked(Call("vary", 4, limit=0.9, patience=60)))
    assert answer.result == 4


PARENT = f"""
from cumae.properties.search.process import Call
from cumae.properties.search.processes import Processes, asked
with Processes({TELLS!r}, ".") as processes:
    processes.run(asked(Call("hang", 1)))
"""


def test_processes_die_with_their_parent(tmp_path: Path) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], cwd=tmp_path)
    deadline = time.monotonic() + 60
    while not (files := list(tmp_path.iterdir())) and time.monotonic() < deadline:
        time.sleep(0.05)
    (pid,) = (int(file.name) for file in files)
    parent.kill()
    parent.wait()
    while _is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _is_alive(pid)


def _is_alive(pid: int) -> bool:
    """Whether a process is there and is no dead one that nobody has waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_the_boldest_cut_comes_first_and_all_are_smaller() -> None:
    case = Case(Batch(tuple(Request(3, 2, tuple(range(9 * b, 9 * b + 9)), "prefill") for b in range(9)), 4))
    candidates = list(boldest(case))
    assert all(is_smaller(candidate, case) for candidate in candidates)
    assert len(set(candidates)) == len(candidates) > 50
    sizes = [len(one.batch.requests) for one in candidates if isinstance(one, Case)]
    assert sizes == sorted(sizes) and sizes[:2] == [0, 1] and {2, 5, 8, 9} <= set(sizes)
