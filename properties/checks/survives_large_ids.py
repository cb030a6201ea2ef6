"""Kernels address block ids and offsets past 2^31 in 64 bits."""

import tracemalloc
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import inf
from typing import Any
from warnings import warn

import torch

from cumae.oracle import Batch, Case, Inputs
from cumae.oracle.model.rules import INT32_MAX
from cumae.properties.checks.accepts_strides import difference_of
from cumae.properties.checks.agrees import agrees
from cumae.properties.checks.writes_everything import writes_everything
from cumae.properties.comparing.compare import wrong_extent, wrong_values
from cumae.properties.operations import VALUE, Expected
from cumae.properties.results.verdict import Finding
from cumae.properties.running.bench import COMPLEMENT, POISON, Bench
from cumae.properties.running.observation import KernelRaised
from cumae.properties.running.stopwatch import stopwatch
from cumae.properties.running.trial import Trial
from cumae.properties.running.variants import HAS_CACHE, gaps_of
from cumae.properties.running.volume import measuring_volume

MODERATE_GAP = 3
FEW = 64
"""Requests of a case that tells how long a function takes for many more."""
PROBED, NARROW = 2**22, 16
"""Entries of a table that is large but not huge, and columns of a narrow one."""
MOST_SECONDS = 0.02
"""The most that the large table may add to a call: one of 2^31 entries adds 500 times as much."""
TRIES = 5
"""Calls with a wide table. One brief call is enough, because another process may slow the others down."""
NOTE = "not tried with a table of 2^31 entries: the function reads tables whole"
NOTE_OF_COPIES = "not tried with a cache beyond 2^31 elements: the function copies caches whole"
NOTE_OF_TIME = "not tried behind {ahead:,} requests: that would take about {seconds:.0f} s"
NOTE_OF_SLOTS = "not tried with slots beyond 2^31: {name} would have an entry for each"
SPARE_BLOCKS, LARGER, PART = (64, 4_096, 65_536), 16, 8
"""Blocks added to a cache until it is so many times as large as all arguments were, and the part of it that a
tensor made is larger than if the function copies caches, or the keys of one."""
_SEEN: dict[tuple[str, int], tuple[Callable[..., Any], bool]] = {}
"""By what was asked and its identity each function seen, kept so that no other gets it, and the answer."""


def survives_large_ids(trial: Trial) -> Finding | None:
    """Call on the case moved beyond 2^31: on the CPU over a sparse mapping, on a GPU over real memory.

    Other checks report kernels that fail on the unmoved case, or with strides of a moderate size. A function
    that reads tables whole, as one that calls ``tolist`` on them, is not shown one of 2^31 entries, and one
    that copies caches no such cache. One that is given a map of all slots is not shown slots beyond 2^31.
    If a case does not fit on the GPU, warn and do not count it as a comparison.
    """
    try:
        return _first_finding(trial)
    finally:
        if trial.device == "cuda":
            torch.cuda.empty_cache()


def _first_finding(trial: Trial) -> Finding | None:
    trial.saw_nothing = True
    for bench, raised_by in trial.enlarged():
        if trial.binding.domain.why_not(bench.case) is not None:
            continue
        if trial.is_over():
            return None
        if not_tried := _why_not_tried(trial, bench.case, raised_by):
            trial.note = not_tried
            continue
        gaps = gaps_of(bench.case.layout)
        if gaps and difference_of(trial, trial.strided(dict.fromkeys(gaps, MODERATE_GAP))) is not None:
            continue
        _ = trial.first  # an error on the unmoved case is raised here
        if too_long := _takes_too_long(trial, bench.case):
            trial.note = too_long
            continue
        try:
            seen, second = bench.observe(overflow=True), bench.observe(COMPLEMENT)
        except torch.OutOfMemoryError as error:
            told = ". ".join(str(error).split(". ")[:2])
            warn(f"survives_large_ids skipped a case that does not fit on the GPU: {told}", stacklevel=2)
            continue
        expected = bench.expected()
        if _too_large(trial, expected):
            continue
        trial.saw_nothing, where, promises = False, trial.because, trial.left_out_by
        case = bench.judged_case
        found = wrong_values("survives_large_ids", trial.binding, seen, expected, case)
        found = found or wrong_extent("survives_large_ids", trial.binding, seen, second, expected, case)
        if found is None:
            continue
        if agrees(trial) is not None or writes_everything(trial) is not None:
            return None
        if seen.watch is not None:
            # An overflow alone is no fault: in a masked lane it does no harm.
            where += "".join(f"; {told}" for told in seen.watch.asserted[:1])
        if len(case.batch.requests) > len(trial.quiet.case.batch.requests):
            found = replace(found, axis="", wrong=())  # places are those of the case that is shown
        raised_by = raised_by if case is bench.case else 0
        message = f"{found.message} {where}"
        return replace(found, message=message, raised_by=raised_by, left_out_by=promises)
    return None


def _takes_too_long(trial: Trial, case: Case) -> str:
    """Return why there is no time for two calls on a case of many more requests, "" if there is.

    It is tried with a few of them: time then grows with their number.
    """
    left, requests = trial.seconds_left(), case.batch.requests
    few = Case(Batch(requests[-FEW:], case.batch.block_size, case.batch.world), options=case.options)
    ahead = len(requests) - len(trial.quiet.case.batch.requests)
    if left == inf or ahead <= FEW or trial.binding.why_not(few) is not None:
        return ""
    try:
        one, several = (_seconds_of(bench) for bench in (trial.quiet, trial.bench(few)))
    except KernelRaised:
        return ""
    seconds = 2 * (one + max(several - one, 0) * ahead / FEW)
    return NOTE_OF_TIME.format(ahead=ahead, seconds=seconds) if seconds > left else ""


def _seconds_of(bench: Bench) -> float:
    with stopwatch() as spent:
        bench.observe()
    return spent["kernel"]


def _too_large(trial: Trial, expected: Mapping[str, Expected]) -> bool:
    """Return whether an int32 output of a user's own operation, or of an adapter alone, is too narrow.

    The cases of shipped operations are made to fit their outputs.
    """
    operation, forms, case = trial.binding.operation, trial.binding.forms, trial.quiet.case
    fits = {output.name for output in operation.outputs} if operation.enlarge is not None else set[str]()
    kinds = {name: forms[name].dtype_for(case) for name in expected.keys() - fits}
    narrow = [expected[name] for name, dtype in kinds.items() if dtype == "int32"]
    return any(bool((one.words[one.state == VALUE] > INT32_MAX).any()) for one in narrow)


def _why_not_tried(trial: Trial, case: Case, raised_by: int) -> str:
    """Return why a function is not called on an enlarged case, which may need gigabytes; "" if it is."""
    if case.layout.min_table_columns and _reads_tables_whole(trial, case):
        return NOTE
    binding = trial.binding
    maps = [name for name in binding.inputs if binding.dialect.inputs[name].has_slots]
    if raised_by and maps:
        return NOTE_OF_SLOTS.format(name=maps[0])
    return NOTE_OF_COPIES if raised_by and _copies_caches(trial) else ""


def _reads_tables_whole(trial: Trial, case: Case) -> bool:
    """Return whether a function copies a table, or takes long for its width: tried once, on a smaller one."""
    return _asked_once("tables", trial, lambda: _is_slow_with_width(trial, case))


def _copies_caches(trial: Trial) -> bool:
    """Return whether a function makes a tensor as large as a cache of keys and values: tried once."""
    if trial.binding.operation.features.isdisjoint(HAS_CACHE):
        return False
    return _asked_once("caches", trial, lambda: _makes_copies(trial))


def _asked_once(what: str, trial: Trial, ask: Callable[[], bool]) -> bool:
    function = trial.binding.function
    if (what, id(function)) not in _SEEN:
        _SEEN[what, id(function)] = function, ask()
    return _SEEN[what, id(function)][1]


def _makes_copies(trial: Trial) -> bool:
    with measuring_volume() as volume:
        try:
            trial.quiet.observe()
            few = volume.take().given
            for count in SPARE_BLOCKS:
                trial.bench(trial.quiet.case.laid_out(num_spare_blocks=count)).observe()
                seen = volume.take()
                if seen.given > LARGER * few:
                    return seen.made > seen.given // PART
        except KernelRaised:
            return False  # it raises on the case itself too
    return False


def _is_slow_with_width(trial: Trial, case: Case) -> bool:
    _ = trial.first  # what it compiles takes time once
    if trial.quiet.case.batch.num_tokens:
        # The time of a call on thousands of requests varies by more than MOST_SECONDS.
        case = trial.quiet.case
    try:
        narrow, _ = _work_with(trial, case, NARROW)
        columns = PROBED // len(Inputs(case)["block_table"])
        if _allocated_with(trial, case, columns) > PROBED:
            return True
        for _ in range(TRIES):
            wide, made = _work_with(trial, case, columns)
            if made < PROBED // 2 and wide - narrow < MOST_SECONDS:
                return False
    except KernelRaised:
        return False  # it raises on the case itself too
    return True


def _work_with(trial: Trial, case: Case, num_columns: int) -> tuple[float, int]:
    """Return the seconds of a call with a table of so many columns, and the size of the largest tensor."""
    bench = trial.bench(case.laid_out(min_table_columns=num_columns))
    with measuring_volume() as volume, stopwatch() as spent:
        bench.observe()
    return spent["kernel"], volume.made


def _allocated_with(trial: Trial, case: Case, num_columns: int) -> int:
    """Return the most bytes that Python and NumPy held in a call with a table of so many columns."""
    bench = trial.bench(case.laid_out(min_table_columns=num_columns))
    call = bench.call(POISON)
    was_tracing = tracemalloc.is_tracing()
    if not was_tracing:
        tracemalloc.start()
    try:
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        call.run()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        if not was_tracing:
            tracemalloc.stop()
