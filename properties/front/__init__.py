"""An executable specification of LLM serving metadata, and a harness that tests GPU kernels against it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cumae.oracle import Batch, Case, Layout, Options, Request
    from cumae.properties.cases.domain import Domain
    from cumae.properties.dialects import DIALECTS, Dialect, Input, Output
    from cumae.properties.dialects.dump import case_from_tensors
    from cumae.properties.operations import OPERATIONS, Operation
    from cumae.properties.pytest_plugin.conforms_to import conforms_to
    from cumae.properties.results.explain import explain
    from cumae.properties.results.verdict import Verdict
    from cumae.properties.running.tensors import tensors
    from cumae.properties.search.direct import check
    from cumae.properties.taking.take import take

_HOMES = {
    "Batch": "cumae.oracle",
    "Case": "cumae.oracle",
    "DIALECTS": "cumae.properties.dialects",
    "Dialect": "cumae.properties.dialects",
    "Domain": "cumae.properties.cases.domain",
    "Input": "cumae.properties.dialects",
    "Layout": "cumae.oracle",
    "OPERATIONS": "cumae.properties.operations",
    "Operation": "cumae.properties.operations",
    "Options": "cumae.oracle",
    "Output": "cumae.properties.dialects",
    "Request": "cumae.oracle",
    "Verdict": "cumae.properties.results.verdict",
    "case_from_tensors": "cumae.properties.dialects.dump",
    "check": "cumae.properties.search.direct",
    "conforms_to": "cumae.properties.pytest_plugin.conforms_to",
    "explain": "cumae.properties.results.explain",
    "take": "cumae.properties.taking.take",
    "tensors": "cumae.properties.running.tensors",
}

__all__ = [
    "DIALECTS",
    "OPERATIONS",
    "Batch",
    "Case",
    "Dialect",
    "Domain",
    "Input",
    "Layout",
    "Operation",
    "Options",
    "Output",
    "Request",
    "Verdict",
    "case_from_tensors",
    "check",
    "conforms_to",
    "explain",
    "take",
    "tensors",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'cumae' has no attribute {name!r}")
