"""Block ids and offsets past 2^31 are addressed in 64 bits."""

from dataclasses import replace

import torch

from cumae.properties.checks.accepts_strides import accepts_strides
from cumae.properties.checks.compare import wrong_extent, wrong_values
from cumae.properties.checks.trial import Trial
from cumae.properties.running.observe import COMPLEMENT
from cumae.properties.verdict import Finding


def survives_large_ids(trial: Trial) -> Finding | None:
    """Call on the case moved beyond 2^31: on the CPU over a sparse mapping, on a GPU over real memory.

    Offsets made large by strides are left out for a kernel that fails small ones: that is another check's.
    """
    try:
        return _first_finding(trial)
    finally:
        if trial.device == "cuda":
            torch.cuda.empty_cache()


def _first_finding(trial: Trial) -> Finding | None:
    for bench in trial.enlarged():
        gaps = bench.case.layout.table_row_gap + bench.case.layout.key_row_gap
        if trial.binding.domain.why_not(bench.case) is not None:
            continue
        if gaps and accepts_strides(trial) is not None:
            continue
        seen, second = bench.observe(), bench.observe(COMPLEMENT)
        expected = bench.expected()
        found = wrong_values("survives_large_ids", trial.binding, seen, expected, bench.case)
        case = bench.case
        found = found or wrong_extent("survives_large_ids", trial.binding, seen, second, expected, case)
        if found is not None:
            where = "at ids or offsets past 2^31"
            if seen.watch is not None and seen.watch.outside:
                where += f"; {seen.watch.outside[0]}"
            return replace(found, message=f"{found.message} {where}")
    return None
