"""The promises that would leave a case out: a function that is never called so need not be wrong."""

from collections.abc import Mapping
from typing import Any

from cumae.oracle import Case
from cumae.properties.cases.domain import Domain

_NARROWER: tuple[Mapping[str, Any], ...] = (
    {"min_requests": 1},
    {"min_tokens": 1},
    {"empty_requests": False},
    {"order": "decodes_first"},
    {"order": "prefills_first"},
    {"padded_together": True},
    {"padding": "none"},
    {"rowless_requests": False},
    {"missing_blocks": False},
    {"strided": False},
    {"index_dtype": ("int32",)},
)
"""Promises that a real function may need."""


def left_out_by(case: Case, domain: Domain) -> str:
    """Return the promises, each of which leaves out a case of a domain, as text; "" if none does.

    >>> from cumae.oracle import Batch, Layout, Request
    >>> padded = Case(Batch((Request(0, 1, (0,)),), 16), Layout(num_padding_tokens=1))
    >>> left_out_by(padded, Domain())
    "Domain(padded_together=True), Domain(padding='none')"
    >>> left_out_by(Case(Batch((), 16)), Domain())
    'Domain(min_requests=1)'
    """
    found = ""
    for promise in _NARROWER:
        ((name, value),) = promise.items()
        if name == "min_tokens" and "min_requests" in found:
            continue  # a step without requests has no tokens either
        try:
            narrower = domain.having(**promise)
        except ValueError:  # it contradicts another promise
            continue
        if narrower.why_not(case) is not None:
            found += f"{', ' if found else ''}Domain({name}={value!r})"
    return found
