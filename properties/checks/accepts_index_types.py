"""Lengths, rows and ids of 32 bits, of 64 bits and of both give the same answer."""

from collections.abc import Mapping

from cumae.oracle import IndexDtype
from cumae.properties.comparing.repeated import changed_since
from cumae.properties.results.verdict import Finding
from cumae.properties.running.trial import Trial

WIDTHS: Mapping[IndexDtype, str] = {
    "int32": "int32",
    "int64": "int64",
    "mixed": "of mixed widths: contexts and rows int64, new tokens and the table int32",
}
"""The widths as a report tells them."""


def accepts_index_types(trial: Trial) -> Finding | None:
    """Call with each of the other promised index widths."""
    base = trial.first
    for dtype in trial.index_dtypes:
        if trial.is_over():
            return None
        other = trial.with_indices(dtype).observe()
        because = f"when lengths, rows and ids were {WIDTHS[dtype]}"
        found = changed_since("accepts_index_types", trial, base, other, because)
        if found is not None:
            return found
    return None
