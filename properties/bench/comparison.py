"""Comparison of two versions of a function: equal bits on generated cases, and the ratio of their speeds."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from cumae.oracle import Case
from cumae.properties.cases.reducer import reduce_case
from cumae.properties.cases.seeded import large_case
from cumae.properties.comparing.compare import looked_up_rows
from cumae.properties.comparing.difference import MOST_MARKED
from cumae.properties.dialects import Output
from cumae.properties.operations.binding import Binding
from cumae.properties.results.counting import counted
from cumae.properties.results.verdict import Finding
from cumae.properties.running.bench import Bench
from cumae.properties.running.device import Device
from cumae.properties.running.launches import TooMuchWork
from cumae.properties.running.observation import KernelRaised, Observation
from cumae.properties.running.words import Words, torch_dtype
from cumae.properties.search.findings import device_lost, lost

ROUNDS = {"cpu": 15, "cuda": 100}
CHECK = "compare"
RULE = "both functions write the same bits to every output"


@dataclass(frozen=True, slots=True)
class Ratio:
    """Time of the candidate over time of the base: median, 10th and 90th percentile of the rounds.

    ``base`` and ``candidate``: median microseconds of a call from Python.
    """

    median: float
    low: float
    high: float
    base: float
    candidate: float


class BothRaised(Exception):
    """Raised for a case on which neither function returns."""


def difference_between(base: Binding, candidate: Binding, case: Case, device: Device) -> Finding | None:
    """Return the first element in which the two differ on a case; compares whole buffers.

    Raises ``BothRaised`` if there is nothing to compare.
    """
    before = _observed("the base", base, case, device)
    if isinstance(before, Finding) and before.ended:
        return before
    after = _observed("the candidate", candidate, case, device)
    if isinstance(before, Finding) and isinstance(after, Finding) and not after.ended:
        raise BothRaised(f"{before.message}; {after.message}")
    if isinstance(before, Finding):
        return before
    if isinstance(after, Finding):
        return after
    for name in before.outputs:
        was, has = before.dtypes.get(name), after.dtypes.get(name)
        if was is not None and has is not None and was != has:
            return Finding(CHECK, f"`{name}` has dtype {has}, had {was}", RULE, output=name)
        dtype = torch_dtype(base.forms[name].dtype_for(case))
        found = _first_difference(name, before.outputs[name], after.outputs[name], dtype, base.forms[name])
        if found is not None:
            return replace(found, rows=looked_up_rows(base, case))
    if after.damage and not before.damage:
        return Finding(CHECK, f"{after.damage[0]}, by the candidate only", RULE)
    return None


def _observed(role: str, binding: Binding, case: Case, device: Device) -> Observation | Finding:
    """Return what a call leaves, or the finding that it raised."""
    try:
        return Bench(binding, case, device).observe()
    except KernelRaised as error:
        told = lost(device)
        said = f"{role} {error}{told}"
        return Finding(CHECK, said, RULE, ended=bool(told), traceback=error.traceback)


@dataclass(slots=True)
class Compared:
    """The result of a comparison: numbers of cases, and the reduced first difference with its case.

    ``too_large``: cases left out as too much work for the interpreter; ``raised``: those on which both
    raise, ``because`` of the last of these errors.
    """

    cases: int = 0
    too_large: int = 0
    raised: int = 0
    because: str = ""
    difference: tuple[Finding, Case] | None = None


def first_difference(
    base: Binding,
    candidate: Binding,
    cases: Iterable[Case],
    device: Device,
    progress: Callable[[str], None] = lambda state: None,
    done: Compared | None = None,
) -> Compared:
    """Return the first difference on cases that both functions promise.

    ``progress`` gets in words how far it is; ``done`` is filled as it goes on, for who interrupts it.
    """
    done = Compared() if done is None else done
    for case in cases:
        if base.why_not(case) is not None or candidate.why_not(case) is not None:
            continue
        try:
            found = difference_between(base, candidate, case, device)
        except TooMuchWork:
            done.too_large += 1
            continue
        except BothRaised as error:
            done.raised += 1
            done.because = str(error)
            continue
        done.cases += 1
        progress(f"{counted(done.cases, 'case')}, equal so far")
        if found is not None:
            done.difference = found, case
            _reduce(base, candidate, done, device, progress)
            break
    return done


def _reduce(
    base: Binding, candidate: Binding, done: Compared, device: Device, progress: Callable[[str], None]
) -> None:
    """Replace the difference by those on ever smaller cases; a lost CUDA context ends the reduction."""
    assert done.difference is not None
    tried = 0

    def still_differs(smaller: Case) -> bool:
        nonlocal tried
        if base.why_not(smaller) is not None or candidate.why_not(smaller) is not None:
            return False
        if device_lost(device):
            return False
        tried += 1
        progress(f"they differ; {counted(tried, 'smaller case')} tried")
        try:
            differs = difference_between(base, candidate, smaller, device)
        except (TooMuchWork, BothRaised):
            return False
        if differs is not None:
            done.difference = differs, smaller
        return differs is not None

    reduce_case(done.difference[1], still_differs)


def speed_ratio(base: Binding, candidate: Binding, device: Device) -> Ratio:
    """Return the ratio of times on one case of 64 requests and 4,096 tokens, with alternating calls."""
    features = base.features & candidate.features
    case = large_case(0, base.domain, features, num_requests=64, num_tokens=4096)
    calls = [_call(binding, case, device) for binding in (base, candidate)]
    for call in calls:
        call()
    times = np.array([_round(calls, turn) for turn in range(ROUNDS[device])])
    ratios = times[:, 1] / times[:, 0]
    low, median, high = (float(np.percentile(ratios, p)) for p in (10, 50, 90))
    medians = np.median(times, axis=0) * 1e6
    return Ratio(median, low, high, float(medians[0]), float(medians[1]))


def _round(calls: list[Callable[[], None]], turn: int) -> tuple[float, float]:
    """Return the seconds of one call of each; the order alternates with ``turn``."""
    found = [0.0, 0.0]
    for i in (0, 1) if turn % 2 == 0 else (1, 0):
        started = time.perf_counter()
        calls[i]()
        found[i] = time.perf_counter() - started
    return found[0], found[1]


def _call(binding: Binding, case: Case, device: Device) -> Callable[[], None]:
    """Return a synchronous call of the function on allocated buffers."""
    arguments = Bench(binding, case, device).call(poison=0).arguments

    def call() -> None:
        binding.function(**arguments)
        if device == "cuda":
            torch.cuda.synchronize()

    return call


def _first_difference(
    name: str, before: Words, after: Words, dtype: torch.dtype, output: Output
) -> Finding | None:
    if before.shape != after.shape or before.dtype != after.dtype:
        message = f"`{name}` is {after.dtype} {list(after.shape)}, was {before.dtype} {list(before.shape)}"
        return Finding(CHECK, message, RULE, output=name)
    unequal = before != after
    differs = unequal.any(axis=tuple(range(1, unequal.ndim)))
    if not differs.any():
        return None
    wrong = np.flatnonzero(differs)
    index = int(wrong[0])
    return Finding(
        CHECK,
        f"`{name}[{index}]` differs between the two",
        RULE,
        output=name,
        index=index // output.per_item,
        expected=_text(before[index], dtype),
        actual=_text(after[index], dtype),
        count=len(wrong),
        total=len(differs),
        axis=output.axis,
        wrong=tuple(int(i) // output.per_item for i in wrong[:MOST_MARKED]),
    )


def _text(words: Any, dtype: torch.dtype) -> str:
    """Return an element, of a float with its bits, or the bytes of a row."""
    if np.ndim(words) > 0:
        return bytes(words).hex(" ", 2)
    if not dtype.is_floating_point or words.dtype.itemsize != dtype.itemsize:
        return str(words)
    value = torch.from_numpy(np.asarray([words])).view(dtype).item()
    return f"{value!r} (bits {int(words) & (1 << 8 * dtype.itemsize) - 1:#x})"
