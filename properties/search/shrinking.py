"""Reduce what a search found: smaller cases or traces on which the same check still fails."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice

from cumae.oracle import Batch, Case, Layout, Options, Trace
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.exclusions import domains_without, is_kept_without, num_leaving_out
from cumae.properties.cases.reducer import MOST_TRIES, reduce_case
from cumae.properties.cases.seeded import seeded_cases
from cumae.properties.cases.trace_reducer import reduce_trace
from cumae.properties.comparing.repeated import changed_since
from cumae.properties.running.observation import KernelRaised
from cumae.properties.search.advice import BRINGS_THEM
from cumae.properties.search.examiner import Examiner
from cumae.properties.search.exits import Stop
from cumae.properties.search.traces import TraceRun
from cumae.properties.steps.crowds import Lens
from cumae.properties.steps.ladder import Ladder

BY_CHANCE, DETERMINISTIC = ("agrees", "forgets_history", "keeps_facts"), "is_deterministic"
"""Checks under which an answer that is wrong by chance is found, and the check that names it."""
MOST_AGAIN = 16
"""Calls that are made again on the failing case."""
MOST_BESIDE, MOST_DRAWN, MOST_SMALL = 8, 12, 64
"""Cases that are tried beside the smallest failing one; drawn ones of each promise that leaves it out, and
the most requests and tokens of those."""
PLAIN: Sequence[Lens] = (("prefill", 0, 3), ("decode", 4, 1))
"""The only request of the first two of them: what an engine surely runs."""


def look_again(examiner: Examiner) -> None:
    """Call the function on the failing case again: if two answers differ, that is what was found.

    An answer that is wrong by chance looks like a wrong value, or like one that follows from earlier calls.
    """
    known = examiner.verdict.failure
    if known is None or known.finding.check not in BY_CHANCE or DETERMINISTIC not in examiner.checks:
        return
    trial = examiner.again(DETERMINISTIC, known.case)
    try:
        for _ in range(MOST_AGAIN):
            if examiner.pace.must_stop():
                return
            first, other = trial.first, trial.quiet.observe()
            found = changed_since(DETERMINISTIC, trial, first, other, "in another call, which was the same")
            if found is not None:
                examiner.keeper.explain(found, known.case)
                return
    except KernelRaised:
        return  # what was found first stays


def shrink(examiner: Examiner) -> None:
    """Reduce the failing case or trace; the same check must keep failing."""
    if (known := examiner.verdict.failure) is None:
        return
    check, tries = known.finding.check, 0
    checks = examiner.checks[: examiner.checks.index(check) + 1]

    def begin() -> None:
        nonlocal tries
        tries += 1
        if examiner.pace.must_stop():
            raise Stop

    def still_fails(case: Case) -> bool:
        begin()
        if examiner.binding.why_not(case) is not None:
            return False
        found = examiner.first_finding(case, checks)
        if found is None or found[0].check != check:
            return False
        examiner.keeper.keep(*found)
        # Strides that a check chose itself are in the case it names, and are reduced there.
        return found[1].layout.strides == case.layout.strides

    def trace_still_fails(trace: Trace) -> bool:
        begin()
        run = TraceRun(examiner.binding, examiner.device, check)
        finding = run.all(trace)
        if finding is None:
            return False
        examiner.keeper.keep(finding, run.trace())
        return True

    if known.trace is None:
        reduce_case(known.case, still_fails)
    else:
        last = reduce_trace(known.trace, trace_still_fails).steps
        if len(last) == 1 and "agrees" in examiner.checks and not examiner.binding.keeps_state:
            _as_a_case(examiner, last[0])
    stopped = f"{MOST_TRIES:,} smaller ones were tried" if tries >= MOST_TRIES else ""
    examiner.verdict.failure = replace(examiner.verdict.failure or known, stopped=stopped)


def look_beside(examiner: Examiner, cases: Sequence[Case | Trace]) -> None:
    """Try a few cases beside the smallest failing one: those that a promise keeps which leaves that one out.

    If one of them fails too, the report says that the promise is not enough, or none if it is a plain one
    that fails for the same reason.
    Behind these come those that most promises leave out, and drawn ones of each promise.
    """
    known = examiner.verdict.failure
    if known is None or known.trace is not None or not known.finding.left_out_by:
        return
    if known.finding.check in BRINGS_THEM:
        return
    check, domain = known.finding.check, examiner.binding.domain
    advice = examiner.keeper.advice
    seen = advice.seen(known.finding)
    steps = (Ladder(domain, ()).step([lens], seed=1) for lens in PLAIN)
    plain = [replace(step, layout=Layout()) for step in steps if step is not None]
    single = (case for case in cases if isinstance(case, Case))
    others = sorted(single, key=lambda case: -num_leaving_out(case, domain, seen))
    beside = (c for c in (*plain, *others) if is_kept_without(known.case, c, domain, seen))
    narrower = () if known.finding.ended else domains_without(known.case, domain, advice.failed, seen)
    in_each = (chain(_in_blocks_of(one, known.case), _drawn(examiner, one)) for one in narrower)
    for case in chain(islice(beside, MOST_BESIDE), chain.from_iterable(in_each)):
        if examiner.pace.must_stop():
            return
        if examiner.binding.why_not(case) is not None:
            continue
        found = examiner.first_finding(case, (check,))
        # A function that raises where it was wrong, or the other way round, has another fault there.
        if found is not None and bool(found[0].traceback) == bool(known.finding.traceback):
            examiner.keeper.failed_too(found[1], found[0], beside=True)


def _in_blocks_of(domain: Domain, case: Case) -> Iterator[Case]:
    """Yield a case's requests in blocks of the sizes that a domain promises, if it is the sizes it lacks."""
    if case.batch.block_size in domain.block_sizes or case.kernel_block_size != case.batch.block_size:
        return
    lens: list[Lens] = [(one.phase, one.context_len, one.query_len) for one in case.batch.requests]
    for size in domain.block_sizes:
        step = Ladder(domain, ()).step(lens, seed=1, block_size=size)
        if step is not None and _suits(case.options, step.batch):
            yield replace(step, layout=case.layout, options=case.options)


def _suits(options: Options, batch: Batch) -> bool:
    """Return whether a batch may have these options: they divide its blocks, and name one of its ranks."""
    size, parallel = batch.block_size, options.parallel
    whole = size % (options.blocks.kernel_block_size or size) == 0 and options.heads.fits_blocks_of(size)
    return whole and parallel.rank < batch.world and (batch.world == 1 or size % parallel.interleave == 0)


def _drawn(examiner: Examiner, domain: Domain) -> list[Case]:
    """Return a few small drawn cases of a domain."""
    cases = islice(seeded_cases(1, domain, examiner.binding.features), 2 * MOST_DRAWN)
    small = (c for c in cases if len(c.batch.requests) <= MOST_SMALL and c.batch.num_tokens <= MOST_SMALL)
    return list(islice(small, MOST_DRAWN))


def _as_a_case(examiner: Examiner, case: Case) -> None:
    """Keep a single step as a case that does not agree, if it does not: no history is needed for it."""
    found = examiner.first_finding(case, ("agrees",))
    if found is not None:
        examiner.keeper.keep(*found)
