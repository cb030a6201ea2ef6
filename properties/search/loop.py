"""The search loop: first cases and the tour, then rounds of drawn ones; reduce, save and count."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median

from cumae.oracle import Case, Trace
from cumae.oracle.model.rules import require_choice
from cumae.properties.cases.page_formats import forms_of
from cumae.properties.cases.shown import shown_by
from cumae.properties.checks import CHECKS, ON_GPU_ONLY, checks_for
from cumae.properties.interpreter.coverage import collecting
from cumae.properties.interpreter.hooks import keeping_hooks
from cumae.properties.operations.binding import Binding, promises_of
from cumae.properties.operations.callee import required
from cumae.properties.operations.users_files import source_of
from cumae.properties.results.reach import without_forms
from cumae.properties.results.verdict import Verdict
from cumae.properties.running.compiles import noting_compiles
from cumae.properties.running.device import Device, one_thread, rare_collections
from cumae.properties.running.frames import with_room
from cumae.properties.running.integrity import tampering
from cumae.properties.running.launches import noting_launches
from cumae.properties.running.machine import device_name, versions
from cumae.properties.running.stopwatch import stopwatch
from cumae.properties.running.trial import Begins
from cumae.properties.running.volume import measuring_volume
from cumae.properties.search.budget import Budget
from cumae.properties.search.database import Shared
from cumae.properties.search.examiner import Examiner
from cumae.properties.search.exits import Disagreement, Stop
from cumae.properties.search.findings import tampered
from cumae.properties.search.in_turns import take_turns
from cumae.properties.search.keeper import Keeper
from cumae.properties.search.named import NamedSizes
from cumae.properties.search.nearly_alike import examine_nearly_alike
from cumae.properties.search.pace import Pace
from cumae.properties.search.rounds import draw_rounds
from cumae.properties.search.shrinking import look_again, look_beside, shrink
from cumae.properties.search.steps import examine_trace
from cumae.properties.search.tour import Tour, work_of_tour
from cumae.properties.search.visitor import Visitor
from cumae.properties.search.work import work_of


def search(
    binding: Binding,
    device: Device,
    budget: Budget,
    *,
    checks: Sequence[str] | None = None,
    first: Sequence[Case | Trace] = (),
    save_to: Path | None = None,
    progress: Callable[[Verdict], None] | None = None,
    before: Callable[[str, Case | Trace], None] | None = None,
    begins: Begins | None = None,
    reduce: bool = True,
    target: str | None = None,
    schedule: str = "",
    part: str = "",
    shared: Shared | None = None,
) -> Verdict:
    """Return the verdict on a bound function.

    ``first``: cases and traces tried before any is drawn, beyond ``budget.examples``, and within half of
    ``budget.seconds``. Under a time budget, an unusually expensive case is stopped between checks when its
    share is used up, and larger ones are left out; the verdict counts both. A failing case is saved under
    ``save_to`` at once and replaced by smaller ones, so an interrupted search keeps it. Without ``reduce``
    it stays unreduced. ``progress`` gets the growing verdict at once and after each case; ``before`` gets
    each check and its case, or its trace so far, before they run; ``begins`` gets, before each call, the
    other case that the function is called on, or None, and why in words. ``target``: the name of the
    function, by default module and name. ``schedule``: the turns of a saved failure, tried first. ``part``:
    which part of a divided search this is; ``shared``: where failures are kept for other machines too. Raises
    ``ValueError`` for an unknown check, for one that needs a GPU on the CPU, and if neither budget is given.
    """
    names = _names_of_checks(checks, binding, device)
    if budget.examples is None and budget.seconds is None:
        raise ValueError("budget = nothing, must give examples or seconds")
    verdict = _verdict_before(binding, device, names, target, part)
    pace = Pace(verdict, budget)
    keeper = Keeper(binding, device, verdict, pace, save_to, shared)
    examiner = Examiner(binding, device, names, keeper, progress, before, verdict, pace, begins, schedule)
    if progress is not None:
        progress(verdict)
    try:
        with (
            one_thread(),
            rare_collections(),
            collecting() as seen,
            suppress(Stop),
            noting_launches() as examiner.launches,
            noting_compiles() as compiles,
            keeping_hooks(),
            stopwatch() as pace.timed,
        ):
            with_room(partial(_search, examiner, first, budget, reduce))
        verdict.coverage = seen.coverage(binding.function) if device == "cpu" else ()
        verdict.compiled = compiles.count, compiles.seconds
        _conclude(examiner, reduce)
    finally:
        tampering()  # restores replaced code also if something else was found first
        pace.tell()
        verdict.shapes = dict(examiner.shapes)
        verdict.pairs = examiner.pairs.num_seen, examiner.pairs.total, examiner.pairs.num_refused
    return verdict


def _names_of_checks(checks: Sequence[str] | None, binding: Binding, device: Device) -> tuple[str, ...]:
    """Return the given checks, or those that fit. Raises ``ValueError`` for one that cannot run here."""
    names = tuple(checks) if checks is not None else checks_for(binding, device)
    for name in names:
        require_choice("check", name, tuple(CHECKS))
        if name in ON_GPU_ONLY and device != "cuda":
            raise ValueError(f"check = {name!r}, must be run on a GPU: device = {device!r} has no graphs")
    return names


def _verdict_before(
    binding: Binding, device: Device, names: tuple[str, ...], target: str | None, part: str
) -> Verdict:
    """Return a verdict that says what is searched, and counts nothing yet."""
    verdict = Verdict(target or binding.name, binding.operation.name, binding.dialect.name, names)
    verdict.hidden, verdict.unpassed = tuple(sorted(binding.hidden)), binding.unpassed
    verdict.domain, verdict.promised, verdict.part = promises_of(binding), binding.promised, part
    verdict.source = source_of(binding.function)
    verdict.versions = versions(device_name(device))
    inputs = {*required(binding.operation.oracle)}
    if binding.operation.judge is not None:  # which sees more than the oracle
        inputs |= {*binding.inputs}
    verdict.shows = shown_by(binding.features, inputs, binding.domain)
    return verdict


def _conclude(examiner: Examiner, reduce: bool) -> None:
    """Add the cases before to a failure; to a verdict without one, what no case had, and tampering."""
    binding, keeper, verdict = examiner.binding, examiner.keeper, examiner.verdict
    if verdict.failure is not None:
        steps = examiner.recent.steps_before(verdict.failure.case, binding.why_not)
        verdict.failure = replace(verdict.failure, before=steps, whole=keeper.whole)
        if reduce and not verdict.failure.stopped:
            verdict.failure = replace(verdict.failure, stopped=examiner.pace.stopped())
        return
    forms = [one for one in forms_of(binding.domain, binding.features) if one not in examiner.forms]
    if reduce and forms:
        verdict.notes = (*verdict.notes, without_forms(forms))
    if examiner.last is not None and (found := tampered(examiner.checks[0])):
        keeper.keep(found, examiner.last)


def _search(examiner: Examiner, first: Sequence[Case | Trace], budget: Budget, reduce: bool) -> None:
    named, features = NamedSizes(examiner.binding.function), examiner.binding.operation.features
    launches = examiner.launches
    work: list[float] = []
    try:
        for number, one in enumerate(first):
            if examiner.pace.is_late_for_first():
                examiner.verdict.not_tried = len(first) - number
                break
            if isinstance(one, Trace):
                examine_trace(examiner, one)
            else:
                programs, accesses = launches.programs, launches.accesses
                examiner.examine(one, thorough=True)
                named.note(one, launches.take())
                interpreted = launches.programs - programs, launches.accesses - accesses
                work.append(work_of(one, features, len(examiner.checks), *interpreted))
        examiner.verdict.named, examiner.num_first = named.sizes(), examiner.verdict.cases
        tour = partial(_tour, examiner, work_of_tour(budget, median(work or [0.0]), examiner.checks))
        if first and budget.examples != 0:
            tour()
        draw_rounds(examiner, budget, then=None if first else tour)
    except Disagreement:
        examiner.keep_whole()
        if reduce:
            look_again(examiner)
            shrink(examiner)
            look_beside(examiner, first)


def _tour(examiner: Examiner, work: float) -> None:
    """Examine the cases of the tour, which do not count as examples of the budget."""
    before = examiner.verdict.cases
    take_turns(examiner)
    keeps_state = examiner.binding.keeps_state
    if keeps_state:
        examine_nearly_alike(examiner)
    if work > 0:
        with measuring_volume() as volume:
            Tour(Visitor(examiner, volume, work), examiner.verdict.named).run()
    if not keeps_state:  # a single case tells more than a trace
        examine_nearly_alike(examiner)
    examiner.verdict.toured = examiner.verdict.cases - before
    examiner.num_first += examiner.verdict.toured
