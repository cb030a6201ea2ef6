"""GPU only: thousands of steps of an engine through captured graphs."""

import time
from dataclasses import dataclass
from itertools import islice

from cumae.properties.operations.binding import Binding
from cumae.properties.results.verdict import Finding
from cumae.properties.search.traces import TraceRun
from cumae.properties.state.graphs import GraphSystem
from cumae.properties.state.plans import Plan
from cumae.properties.state.setting import Sizes
from cumae.properties.state.walks import walk

STEPS_EACH = 1000
PLAN = Plan(sizes=Sizes(num_rows=12, blocks_each=6, budget=128))


@dataclass(slots=True)
class Soaked:
    """The result of a soak: ``steps`` replayed, graphs ``captured``, ``engines`` begun, the finding."""

    target: str
    steps: int = 0
    captured: int = 0
    engines: int = 0
    seconds: float = 0.0
    finding: Finding | None = None
    not_promised: int = 0


def soak(binding: Binding, steps: int) -> Soaked:
    """Replay ``steps`` steps, a thousand of each engine, and stop at the first finding."""
    soaked = Soaked(binding.name)
    started = time.monotonic()
    while soaked.steps < steps and soaked.finding is None:
        run = TraceRun(binding, "cuda", GraphSystem.check)
        left = min(STEPS_EACH, steps - soaked.steps)
        for case in islice(walk(binding, soaked.engines, PLAN, buckets=True), left):
            if binding.why_not(case) is not None:
                soaked.not_promised += 1
                continue
            soaked.finding = run.step(case)
            soaked.steps += 1
            soaked.seconds = time.monotonic() - started
            if soaked.finding is not None:
                break
        soaked.engines += 1
        soaked.captured += run.num_captured
    return soaked
