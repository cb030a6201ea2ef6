"""Block ids and offsets past 2^31 are addressed in 64 bits."""

from dataclasses import replace
from warnings import warn

import torch

from cumae.oracle import Layout
from cumae.properties.checks.accepts_strides import accepts_strides
from cumae.properties.checks.agrees import agrees
from cumae.properties.checks.writes_everything import writes_everything
from cumae.properties.comparing.compare import wrong_extent, wrong_values
from cumae.properties.results.verdict import Finding
from cumae.properties.running.bench import COMPLEMENT
from cumae.properties.running.trial import Trial


def survives_large_ids(trial: Trial) -> Finding | None:
    """Call on the case moved beyond 2^31: on the CPU over a sparse mapping, on a GPU over real memory.

    A kernel that is wrong on the case as it is, or offsets made large by strides where it fails small
    ones, are another check's. What a GPU has no room for is left out with a warning, and is no comparison.
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
        if is_strided(bench.case.layout) and accepts_strides(trial) is not None:
            continue
        _ = trial.first  # what raises on the case as it is raises here
        try:
            seen, second = bench.observe(overflow=True), bench.observe(COMPLEMENT)
        except torch.OutOfMemoryError as error:
            told = ". ".join(str(error).split(". ")[:2])
            warn(f"survives_large_ids left out a case that the GPU has no room for: {told}", stacklevel=2)
            continue
        trial.saw_nothing, where = False, trial.because
        expected = bench.expected()
        found = wrong_values("survives_large_ids", trial.binding, seen, expected, bench.case)
        case = bench.case
        found = found or wrong_extent("survives_large_ids", trial.binding, seen, second, expected, case)
        if found is None:
            continue
        if agrees(trial) is not None or writes_everything(trial) is not None:
            return None
        if seen.watch is not None:
            # Alone it is no fault: what wraps in a lane that is masked off harms nobody.
            where += "".join(f"; {told}" for told in seen.watch.asserted[:1])
        return replace(found, message=f"{found.message} {where}", raised_by=raised_by)
    return None


def is_strided(layout: Layout) -> bool:
    """Whether there are gaps between rows."""
    return layout.table_row_gap + layout.key_row_gap + layout.cache_row_gap > 0
