"""Values are right if programs take turns between accesses, and if threads of one are slow or fast."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice

from cumae.properties.checks.is_deterministic import is_deterministic
from cumae.properties.comparing.compare import wrong_extent, wrong_values
from cumae.properties.interpreter.delays import Delays
from cumae.properties.interpreter.overtakes import Overtakes
from cumae.properties.interpreter.schedules import (
    Listed,
    Prioritised,
    Schedule,
    Shuffled,
    every_order,
    num_orders,
    turns_of,
    written,
)
from cumae.properties.interpreter.threads import Layout, layouts
from cumae.properties.interpreter.turns import Turns
from cumae.properties.interpreter.watch import Watch
from cumae.properties.results.verdict import Finding
from cumae.properties.running.observation import KernelRaised, Observation
from cumae.properties.running.trial import Trial

FaultIn = Callable[[Trial, Layout, Layout], tuple[Finding | None, bool]]
MOST_PROGRAMS = 32
MOST_ACCESSES = 2_000
MOST_ORDERS = 16
"""If accesses can come in at most so many orders, each is tried; else this many schedules are drawn."""
RULE = "a kernel's output does not depend on when its programs and their threads run"


def holds_in_any_order(trial: Trial) -> Finding | None:
    """Run the programs of small launches in turns, then their threads slower and faster, and compare.

    A slow thread's stores reach the others at the next barrier; a fast one stores before others have loaded.
    Nothing is run again if no program touches what another changes, and none touches twice what it stores to.
    Races, and values that depend on the order of whole programs, are left to ``is_deterministic``.
    """
    watch = trial.second.watch
    if watch is not None and not watch.seeks_races:
        watch = trial.again().watch
    if watch is None:
        trial.saw_nothing = True
        return None
    atomics = watch.counts["atomic"] + watch.counts["exchange"]
    shares = watch.contested or watch.loads_again or watch.stores_over
    trial.shares = bool(shares or atomics)
    if not trial.shares:
        return None
    watch = trial.again().watch
    assert watch is not None
    if not (watch.contested or watch.loads_again or watch.stores_over):
        return None
    if watch.num_accesses > MOST_ACCESSES or watch.most_programs > MOST_PROGRAMS:
        trial.saw_nothing = True
        return None
    if _fault(trial, trial.first) is not None or is_deterministic(trial) is not None:
        return None
    found = _in_turns(trial, watch) if watch.contested else None
    if found is None and watch.loads_again:
        found = _in_each_layout(trial, _delayed)
    if found is None and watch.stores_over:
        found = _in_each_layout(trial, _overtaken)
    return found


def _in_turns(trial: Trial, watch: Watch) -> Finding | None:
    for schedule in _schedules(trial, watch):
        if trial.is_over():
            return None
        turns = Turns(schedule, watch.contested)
        try:
            found = _fault(trial, trial.in_turns(turns))
        except KernelRaised as error:
            if error.gives_up:
                continue
            found = Finding("holds_in_any_order", f"the kernel {error}", RULE, traceback=error.traceback)
        if found is not None:
            told = f"{found.message}, when {_told(turns)}"
            return replace(found, message=told, rule=RULE, cause="", schedule=written(schedule.taken))
    return None


def _schedules(trial: Trial, watch: Watch) -> Iterator[Schedule]:
    """Yield the schedule of a saved failure, then every order if there are few, else random ones."""
    if trial.schedule:
        yield Listed(turns_of(trial.schedule))
    points = watch.points()
    if num_orders(points) <= MOST_ORDERS:
        yield from islice(every_order(), MOST_ORDERS)
        return
    length = sum(map(sum, points))
    for i in range(MOST_ORDERS):
        seed = f"{i} {trial.quiet.case.batch!r}"
        # Schedules with few switches come first: they make the clearest reports.
        yield Prioritised(seed, 1 if i < 3 else 2, length) if 2 * i < MOST_ORDERS else Shuffled(seed)


def _told(turns: Turns) -> str:
    """Return in words where the turn passed from one program to another."""
    if not turns.switches:
        order = dict.fromkeys(turns.schedule.taken)
        return f"programs run in the order {', '.join(map(str, order))}"
    more = len(turns.switches) - 2
    told = "; ".join(map(str, turns.switches[:2]))
    return f"{told}; and {more} more times" if more > 0 else told


def _in_each_layout(trial: Trial, fault_in: FaultIn) -> Finding | None:
    """Return a wrong output that threads can cause, however blocks are laid out over them."""
    found, has_columns = None, True
    for stores, loads in layouts():
        if trial.is_over():
            return None
        if not has_columns and not (stores.by_rows and loads.by_rows):
            continue
        try:
            found, has_columns = fault_in(trial, stores, loads)
        except KernelRaised:
            return None  # as if programs wait for later ones, whose threads are not run
        if found is None:
            return None
        # An older value that is loaded and stored again may be the poison of an unwritten element.
        wrong = f"`{found.output}[{found.index}]` is wrong" if found.index >= 0 else found.message
        found = replace(found, message=f"{wrong}, when {trial.note}", rule=RULE, cause="")
    return found


def _delayed(trial: Trial, stores: Layout, loads: Layout) -> tuple[Finding | None, bool]:
    """Return a wrong output if loads miss the stores of other threads, and whether blocks have columns."""
    threads = Delays(stores=stores, loads=loads)
    seen = trial.with_threads(threads)
    if threads.stale:
        trial.note = f"{threads.stale[0]}, and no `tl.debug_barrier` is between them"
    return _fault(trial, seen), threads.has_columns


def _overtaken(trial: Trial, stores: Layout, loads: Layout) -> tuple[Finding | None, bool]:
    """Return a wrong output if the threads of one warp are faster, and whether blocks have columns."""
    threads, found = Overtakes(stores=stores, loads=loads), None
    trial.with_threads(threads)
    for warp in dict.fromkeys(one.warp for one in threads.found):
        overtaken = [one for one in threads.found if one.warp == warp]
        given = {one.place: one.value for one in reversed(overtaken)}
        trial.note = f"{overtaken[0]}, and no `tl.debug_barrier` is between them"
        found = _fault(trial, trial.with_threads(Overtakes(stores=stores, loads=loads, given=given)))
        if found is not None or trial.is_over():
            break
    return found, threads.has_columns


def _fault(trial: Trial, seen: Observation) -> Finding | None:
    """Return what is wrong in a call: values as in ``agrees``, elements left out, strays or assertions."""
    check, watch = "holds_in_any_order", seen.watch
    if watch is not None and (watch.asserted or watch.outside):
        return Finding(check, str([*watch.asserted, *watch.outside][0]), RULE)
    binding, expected, case = trial.binding, trial.expected, trial.quiet.case
    found = wrong_values(check, binding, seen, expected, case)
    return found or wrong_extent(check, binding, seen, seen, expected, case)
