"""Kernels address block ids and offsets past 2^31 in 64 bits."""

from dataclasses import replace
from warnings import warn

import torch

from cumae.oracle import Layout
from cumae.properties.checks.accepts_strides import difference_of
from cumae.properties.checks.agrees import agrees
from cumae.properties.checks.writes_everything import writes_everything
from cumae.properties.comparing.compare import wrong_extent, wrong_values
from cumae.properties.results.verdict import Finding
from cumae.properties.running.bench import COMPLEMENT
from cumae.properties.running.trial import Trial

MODERATE_GAP = 3


def survives_large_ids(trial: Trial) -> Finding | None:
    """Call on the case moved beyond 2^31: on the CPU over a sparse mapping, on a GPU over real memory.

    Other checks report kernels that fail on the unmoved case, or with strides of a moderate size.
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
        gaps = gaps_of(bench.case.layout)
        if gaps and difference_of(trial, trial.strided(dict.fromkeys(gaps, MODERATE_GAP))) is not None:
            continue
        _ = trial.first  # an error on the unmoved case is raised here
        try:
            seen, second = bench.observe(overflow=True), bench.observe(COMPLEMENT)
        except torch.OutOfMemoryError as error:
            told = ". ".join(str(error).split(". ")[:2])
            warn(f"survives_large_ids skipped a case that does not fit on the GPU: {told}", stacklevel=2)
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
            # An overflow alone is no fault: in a masked lane it does no harm.
            where += "".join(f"; {told}" for told in seen.watch.asserted[:1])
        return replace(found, message=f"{found.message} {where}", raised_by=raised_by)
    return None


def gaps_of(layout: Layout) -> list[str]:
    """Return the fields of a layout that give a gap between rows or blocks."""
    return [name for name, value in layout.strides.items() if name.endswith("_gap") and value > 0]
