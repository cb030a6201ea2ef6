"""Measure how many cases a second a search tries: rates.py OUT [--seconds S] [--processes N] [--before FILE].

FILE is what this script wrote for an earlier version on the same machine; it stands beside the new figures.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from hypothesis import HealthCheck, Phase, given, seed, settings

from cumae.oracle import Case
from cumae.properties.cases.pairs import Pairs, paired_cases
from cumae.properties.cases.strategies import cases
from cumae.properties.checks import checks_for
from cumae.properties.operations.binding import binding_of
from cumae.properties.operations.targets import load_function
from cumae.properties.results.verdict import Verdict
from cumae.properties.running.bench import POISON, Bench
from cumae.properties.running.device import one_thread, prepare, rare_collections
from cumae.properties.running.frames import with_room
from cumae.properties.running.launches import noting_launches
from cumae.properties.running.machine import measured
from cumae.properties.running.stopwatch import stopwatch
from cumae.properties.search.budget import Budget
from cumae.properties.search.examiner import Examiner
from cumae.properties.search.exits import Stop
from cumae.properties.search.keeper import Keeper
from cumae.properties.search.pace import Pace
from cumae.properties.search.rounds import ROUND, TOGETHER, drawn_round
from cumae.properties.selfcheck.record import write_record

DEVICE = prepare("auto")
KERNEL, OPERATION = "cumae.gpu_impl:write_position_ids", "position_ids"
BINDING = binding_of(load_function(KERNEL), OPERATION)
CONSTANT = ("agrees", "writes_everything", "stays_in_bounds", "ignores_garbage", "is_deterministic")
CHECKS = {"3": CONSTANT[:3], "5": CONSTANT, "every": checks_for(BINDING, DEVICE)}
"""Checks that run on every case, and all of them, of which some run on every third to twentieth case."""
WARM_UP = 2.0


def seeded() -> Iterator[Case]:
    """Yield seeded cases, as a search draws them."""
    pairs = Pairs(BINDING.domain, BINDING.features)
    for case in paired_cases(7, BINDING.domain, BINDING.features, pairs):
        pairs.note(case)
        yield case


def drawn(count: int) -> None:
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
    @given(case=cases(domain=BINDING.domain, features=BINDING.features))
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


def launched(seconds: float) -> float:
    """Return how many calls a second on buffers that are there already, one over before the next."""
    prepared = [Bench(BINDING, case, DEVICE).call(POISON) for case in islice(seeded(), 200)]

    def run() -> None:
        for call in prepared:
            call.function(**call.arguments)
            if DEVICE == "cuda":
                torch.cuda.current_stream().synchronize()

    return repeated(seconds, run, len(prepared))


def searched(checks: tuple[str, ...], seconds: float, *, by_hypothesis: bool = False) -> dict[str, Any]:
    """Return the rate of a search without its first cases, tour and traces, and where its time went."""
    budget = Budget(seconds=seconds, volume=100)
    verdict = Verdict(KERNEL, OPERATION, BINDING.dialect.name, checks)
    pace = Pace(verdict, budget)
    keeper = Keeper(BINDING, DEVICE, verdict, pace)
    examiner = Examiner(BINDING, DEVICE, checks, keeper, None, None, verdict, pace)
    examiner.at_once = TOGETHER

    def run() -> None:
        volume = paired_cases(0, BINDING.domain, BINDING.features, examiner.pairs)
        number = 0
        while examiner.left(budget):
            number += 1
            if by_hypothesis:
                drawn_round(examiner, ROUND, number)
                continue
            for case in examiner.foresee(list(islice(volume, TOGETHER))):
                examiner.examine(case)

    with (
        one_thread(),
        rare_collections(),
        noting_launches() as examiner.launches,
        stopwatch() as examiner.pace.timed,
    ):
        try:
            with_room(run)
        except Stop:
            pass
    examiner.pace.tell()
    assert verdict.failure is None, verdict.failure
    spent = {name: round(part / verdict.seconds, 3) for name, part in verdict.spent.items()}
    return {"rate": round(verdict.cases / verdict.seconds), "tried": verdict.cases, "spent": spent}


def several(count: int, seconds: float) -> float:
    """Return the cases a second of so many processes that search at once."""
    command = [sys.executable, __file__, "-", "--seconds", str(seconds)]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(count)]
    rates: list[float] = [json.loads(process.communicate()[0])["rate"] for process in started]
    return sum(rates)


def main() -> None:
    """Measure, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", help="the file to write; - prints the rate of one search alone")
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--processes", type=int, default=16)
    parser.add_argument("--before", type=Path)
    asked = parser.parse_args()
    searched(CONSTANT, WARM_UP)
    if asked.out == "-":
        print(json.dumps(searched(CONSTANT[:3], asked.seconds)))
        return
    stream = seeded()
    found: dict[str, Any] = {
        "generators": {
            "seeded": repeated(asked.seconds, partial(next, stream)),
            "drawn": repeated(asked.seconds, partial(drawn, 50), 50),
        },
        "launched": launched(asked.seconds),
        "searches": [
            {"checks": name, "cases": by, **searched(checks, asked.seconds, by_hypothesis=by == "drawn")}
            for by in ("seeded", "drawn")
            for name, checks in CHECKS.items()
        ],
        "processes": asked.processes,
        "together": several(asked.processes, asked.seconds),
    }
    command = f"ci/rates.py --seconds {asked.seconds:g} --processes {asked.processes}"
    record = measured(command, kernel=KERNEL, now=found)
    if asked.before is not None:
        record["before"] = json.loads(asked.before.read_text())["now"]
    write_record(Path(asked.out), record)


if __name__ == "__main__":
    main()
