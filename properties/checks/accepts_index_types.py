"""32-bit and 64-bit lengths, rows and ids give the same answer."""

from dataclasses import replace

from cumae.oracle import INDEX_DTYPES
from cumae.properties.comparing.repeated import changed_since
from cumae.properties.results.verdict import Finding
from cumae.properties.running.trial import Trial


def accepts_index_types(trial: Trial) -> Finding | None:
    """Call with each of the other promised index widths."""
    base, case = trial.first, trial.quiet.case
    for dtype in trial.binding.domain.among("index_dtype", INDEX_DTYPES)[1:]:
        if trial.is_over():
            return None
        because = f"when lengths, rows and ids were {dtype}"
        wide = replace(case, layout=replace(case.layout, index_dtype=dtype))
        other = trial.bench(wide, because).observe()
        found = changed_since("accepts_index_types", trial, base, other, because)
        if found is not None:
            return found
    return None
