"""Programs in turns: schedules, switches, errors and time limits; and each thread ends."""

import signal
import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from cumae.properties.interpreter.hooks import watching
from cumae.properties.interpreter.launch import WaitsForEver
from cumae.properties.interpreter.schedules import (
    InTurn,
    Listed,
    Prioritised,
    Schedule,
    Shuffled,
    every_order,
    num_orders,
    turns_of,
    written,
)
from cumae.properties.interpreter.turns import Turns
from cumae.properties.interpreter.watch import Watch
from cumae.properties.running.device import prepare
from cumae.properties.tests.functions import right_orders, wrong_orders

if prepare("auto") == "cuda":
    pytest.skip("programs take turns only in the interpreter", allow_module_level=True)
NOTHING = np.zeros(0, np.uint64)


def nothing_to_leave() -> None:
    """Return the state of a program that shares no place with others."""


def nothing_to_enter(number: int, state: object) -> None:
    """Put no state anywhere."""


NO_STATE = (nothing_to_leave, nothing_to_enter)


@pytest.fixture(autouse=True)
def every_thread_ends() -> Iterator[None]:
    before = threading.active_count()
    yield
    assert threading.active_count() == before


def run(kernel: Any, schedule: Schedule, num_tiles: int = 3) -> tuple[list[int], Turns, Watch]:
    """Return the output of a kernel whose right output is 0, 1, 2 …, with -1 for what it leaves out."""
    right, out = torch.arange(4 * num_tiles), torch.full((4 * num_tiles,), -1)
    words, turns = torch.zeros(2 * num_tiles + 4, dtype=torch.int32), Turns(schedule)
    with watching(turns=turns) as watch:
        kernel[(num_tiles,)](right, out, words, len(right), TILE=4)
    return out.tolist(), turns, watch


def orders_of(*accesses: int) -> set[str]:
    """Return the orders that are tried of programs with so many accesses each."""
    found = set()
    for schedule in every_order():
        turns = Turns(schedule)
        order: list[int] = []

        def program(number: int, turns: Turns = turns, order: list[int] = order) -> None:
            for _ in range(accesses[number]):
                turns.before()
                order.append(number)
                turns.after(NOTHING, changed=True)

        programs = [partial(program, number) for number in range(len(accesses))]
        turns.run(programs, *NO_STATE)
        found.add("".join(map(str, order)))
    return found


def test_every_order_of_few_accesses_is_tried_once() -> None:
    assert orders_of(2, 2) == {"0011", "0101", "0110", "1001", "1010", "1100"}
    assert len(orders_of(2, 1, 2)) == num_orders([[2, 1, 2]]) == 30


@pytest.mark.parametrize("schedule", [InTurn(), Shuffled("3"), Prioritised("3", 2, 10)])
def test_a_list_of_the_turns_taken_gives_the_same_call(schedule: Schedule) -> None:
    out, turns, _ = run(wrong_orders._adds_in_two_steps, schedule)
    again, other, _ = run(wrong_orders._adds_in_two_steps, Listed(turns_of(written(schedule.taken))))
    assert out == again
    assert turns.switches == other.switches


def test_two_atomics_lose_an_update_only_in_turns() -> None:
    right = list(range(12))
    assert run(wrong_orders._adds_in_two_steps, Listed([0] * 9 + [1] * 9 + [2] * 9))[0] == right
    out, turns, _ = run(wrong_orders._adds_in_two_steps, Listed(turns_of("0 1 0 1")))
    assert out[8:] == [-1] * 4
    first = turns.switches[0]
    assert (first.program, first.other) == (0, 1)
    assert first.last != first.next


def test_a_program_that_waits_for_a_later_one_lets_it_run() -> None:
    for schedule in (Listed([0] * 50), Prioritised("1", 0, 10), InTurn()):
        assert run(right_orders._waits_for_the_next, schedule)[0] == list(range(12))


def test_programs_that_wait_for_each_other_are_said_to_wait_for_ever() -> None:
    with pytest.raises(Exception, match=r"program 0 at wrong_orders.py:.* and program 1 at") as error:
        run(wrong_orders._locks_crosswise, InTurn(), num_tiles=2)
    assert isinstance(error.value.__cause__, WaitsForEver)


def test_an_error_in_one_program_is_raised_and_frees_the_others() -> None:
    turns = Turns(InTurn())

    def program(number: int) -> None:
        for _ in range(3):
            turns.before()
            turns.after(NOTHING, changed=True)
        if number == 1:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        turns.run([partial(program, number) for number in range(4)], *NO_STATE)


def test_a_time_limit_frees_all_programs() -> None:
    def out_of_time(*_: object) -> None:
        raise TimeoutError

    def program() -> None:
        while True:
            time.sleep(0.001)
            turns.before()
            turns.after(NOTHING, changed=True)

    turns = Turns(InTurn())
    before = signal.signal(signal.SIGALRM, out_of_time)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        with pytest.raises(TimeoutError):
            turns.run([program, program], *NO_STATE)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_each_program_has_its_own_index_in_each_turn() -> None:
    """Fails if a turn leaves another program's index, or its number in the watch, behind."""
    for seed in map(str, range(5)):
        out, _, watch = run(wrong_orders._copies, Shuffled(seed))
        assert out == list(range(12))
        assert watch.most_programs == 3


def test_settings_of_numpy_reach_each_program() -> None:
    seen: list[str] = []
    programs = [lambda: seen.append(np.geterr()["divide"])] * 2
    with np.errstate(divide="raise"):
        Turns(InTurn()).run(programs, *NO_STATE)
    assert seen == ["raise", "raise"]


@pytest.mark.parametrize("text", ["x", "0*", "1*x", "-1", "0 ,"])
def test_a_text_that_is_no_schedule_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"must be program numbers such as '0\*3 1 0'"):
        turns_of(text)
