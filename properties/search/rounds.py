"""Rounds of a search: seeded cases, cases that Hypothesis draws, and traces."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings

from cumae.oracle import Case
from cumae.properties.cases.pairs import paired_cases
from cumae.properties.cases.strategies import cases
from cumae.properties.search.budget import Budget
from cumae.properties.search.examiner import Examiner
from cumae.properties.search.exits import Stop
from cumae.properties.search.steps import begin_trace
from cumae.properties.search.traces import traced_checks
from cumae.properties.state.walks import trace_of

ROUND = 50
TOGETHER, MOMENT = 25, 0.1
"""Drawn cases that are called together on a GPU at most, and the seconds that some may take."""
WALKS = 5
"""Traces of each check in a round."""
SEED_ROUNDS = 1_000_000
"""Rounds of one seed."""


def draw_rounds(examiner: Examiner, budget: Budget, then: Callable[[], None] | None = None) -> None:
    """Alternate rounds of drawn and of seeded cases until the budget is spent.

    ``then``: what comes after the first round; a search without first cases shows small ones before its tour.
    """
    binding, named, pairs = examiner.binding, examiner.verdict.named, examiner.pairs
    volume = paired_cases(budget.seed, binding.domain, binding.features, pairs, named)
    number = 0
    traced = traced_checks(examiner.binding, examiner.checks)
    only_traces = examiner.binding.keeps_state and len(traced) == len(examiner.checks)
    while examiner.left(budget):
        # Functions that keep state show their faults in traces: run the first traces soon.
        left = ROUND if number or not examiner.binding.keeps_state else ROUND // 5
        if budget.examples is not None:
            left = min(left, budget.examples + examiner.num_first - examiner.verdict.cases)
        if only_traces:
            # Single cases use fresh instances, so only traces can show stale state.
            examiner.num_first -= left
        else:
            num_seeded = left * budget.volume // 100
            seeded = _while_left(volume, num_seeded, examiner, budget)
            while cases := list(islice(seeded, examiner.at_once)):
                _examine_drawn(examiner, cases)
            if left > num_seeded:
                drawn_round(examiner, left - num_seeded, budget.seed * 1_000_003 + number)
        # Traces come last: a defect that one case shows is reported by the check for it.
        # Plans of walks repeat after a few rounds: every seed begins with the first of them.
        _traced_round(examiner, traced, budget.seed * SEED_ROUNDS + number)
        if then is not None and number == 0:
            then()
        number += 1


def _traced_round(examiner: Examiner, traced: Sequence[str], number: int) -> None:
    """Run traces, more of them for a function that keeps state between its steps.

    Their steps do not count as examples of the budget.
    """
    times = 3 if examiner.binding.keeps_state else 1
    for check in traced:
        for i in range(WALKS * times):
            if examiner.pace.is_late():
                return
            run_step = begin_trace(examiner, check)
            for case in trace_of(examiner.binding, number * WALKS * times + i):
                counted = examiner.verdict.cases
                run_step(case)
                examiner.num_first += examiner.verdict.cases - counted


def _while_left(volume: Iterator[Case], count: int, examiner: Examiner, budget: Budget) -> Iterator[Case]:
    for _ in range(count):
        if not examiner.left(budget):
            return
        yield next(volume)


def _examine_drawn(examiner: Examiner, cases: list[Case]) -> None:
    """Examine cases; one that is left out is one of the budget's too.

    How many are taken at once follows the time they take: a slow function is called on one case at a time.
    """
    began = examiner.pace.elapsed()
    for case in examiner.foresee(cases):
        if not examiner.examine(case):
            examiner.verdict.left_out += 1
            examiner.num_first -= 1
    if examiner.calls_together and cases:
        is_brief = examiner.pace.elapsed() - began < MOMENT
        most = 2 * examiner.at_once if is_brief else examiner.at_once // 2
        examiner.at_once = min(max(most, 1), TOGETHER)


def drawn_round(examiner: Examiner, examples: int, round_seed: int) -> None:
    """Let Hypothesis draw cases without shrinking, with settings that no loaded profile changes."""
    binding, waiting = examiner.binding, list[Case]()

    @seed(round_seed)
    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=False,
        database=None,
        phases=(Phase.generate,),
        verbosity=Verbosity.quiet,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=cases(domain=binding.domain, features=binding.features, sizes=examiner.verdict.named))
    def examine(case: Case) -> None:
        if examiner.pace.is_late():
            raise Stop
        waiting.append(case)
        if len(waiting) >= examiner.at_once:
            _examine_drawn(examiner, waiting)
            waiting.clear()

    examine()
    _examine_drawn(examiner, waiting)
