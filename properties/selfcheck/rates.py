"""How many cases a second the generators, a kernel and a search reach, each alone."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any

import torch
from hypothesis import HealthCheck, Phase, given, seed, settings

from cumae.oracle import Case
from cumae.properties.cases.pairs import Pairs, paired_cases
from cumae.properties.cases.strategies import cases
from cumae.properties.operations.binding import Binding
from cumae.properties.results.verdict import Verdict
from cumae.properties.running.bench import POISON, Bench
from cumae.properties.running.device import Device, one_thread, rare_collections
from cumae.properties.running.frames import with_room
from cumae.properties.running.launches import noting_launches
from cumae.properties.running.stopwatch import stopwatch
from cumae.properties.search.budget import Budget
from cumae.properties.search.examiner import Examiner
from cumae.properties.search.exits import Stop
from cumae.properties.search.keeper import Keeper
from cumae.properties.search.pace import Pace
from cumae.properties.search.rounds import ROUND, TOGETHER, drawn_round


def seeded(binding: Binding) -> Iterator[Case]:
    """Yield seeded cases, as a search draws them."""
    pairs = Pairs(binding.domain, binding.features)
    for case in paired_cases(7, binding.domain, binding.features, pairs):
        pairs.note(case)
        yield case


def drawn(binding: Binding, count: int) -> None:
    """Let Hypothesis draw cases."""

    @seed(count)
    @settings(
        max_examples=count,
        deadline=None,
        derandomize=False,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(case=cases(domain=binding.domain, features=binding.features))
    def draw(case: Case) -> None:
        pass

    draw()


def repeated(seconds: float, step: Callable[[], Any], each: int = 1) -> float:
    """Return how often a second a step is done, which counts for several."""
    step()
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        step()
        count += each
    return round(count / (time.perf_counter() - began))


def launched(binding: Binding, device: Device, seconds: float) -> float:
    """Return how many calls a second on buffers that are there already, one over before the next."""
    prepared = [Bench(binding, case, device).call(POISON) for case in islice(seeded(binding), 200)]

    def run() -> None:
        for call in prepared:
            call.function(**call.arguments)
            if device == "cuda":
                torch.cuda.current_stream().synchronize()

    return repeated(seconds, run, len(prepared))


def searched(
    binding: Binding, device: Device, checks: tuple[str, ...], seconds: float, *, by_hypothesis: bool = False
) -> dict[str, Any]:
    """Return the rate of a search without its first cases, tour and traces, and where its time went."""
    budget = Budget(seconds=seconds, volume=100)
    verdict = Verdict(binding.name, binding.operation.name, binding.dialect.name, checks)
    pace = Pace(verdict, budget)
    keeper = Keeper(binding, device, verdict, pace)
    examiner = Examiner(binding, device, checks, keeper, None, None, verdict, pace)
    examiner.at_once = TOGETHER
    with (
        one_thread(),
        rare_collections(),
        noting_launches() as examiner.launches,
        stopwatch() as examiner.pace.timed,
        suppress(Stop),
    ):
        with_room(partial(_draw_and_examine, examiner, budget, by_hypothesis))
    examiner.pace.tell()
    assert verdict.failure is None, verdict.failure
    spent = {name: round(part / verdict.seconds, 3) for name, part in verdict.spent.items()}
    return {"rate": round(verdict.cases / verdict.seconds), "tried": verdict.cases, "spent": spent}


def _draw_and_examine(examiner: Examiner, budget: Budget, by_hypothesis: bool) -> None:
    """Draw cases and examine them until the budget is used up."""
    binding = examiner.binding
    volume = paired_cases(0, binding.domain, binding.features, examiner.pairs)
    number = 0
    while examiner.left(budget):
        number += 1
        if by_hypothesis:
            drawn_round(examiner, ROUND, number)
            continue
        for case in examiner.foresee(list(islice(volume, TOGETHER))):
            examiner.examine(case)
