"""32-bit and 64-bit lengths, rows and ids give the same answer."""

from cumae.properties.comparing.repeated import changed_since
from cumae.properties.results.verdict import Finding
from cumae.properties.running.trial import Trial


def accepts_index_types(trial: Trial) -> Finding | None:
    """Call with each of the other promised index widths."""
    base = trial.first
    for dtype in trial.index_dtypes:
        if trial.is_over():
            return None
        other = trial.with_indices(dtype).observe()
        because = f"when lengths, rows and ids were {dtype}"
        found = changed_since("accepts_index_types", trial, base, other, because)
        if found is not None:
            return found
    return None
