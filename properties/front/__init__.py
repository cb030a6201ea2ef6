"""An executable specification of LLM serving metadata, and a harness that tests GPU kernels against it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cumae.oracle import Batch, Case, Layout, OperationName, Options, Request
    from cumae.properties.cases.domain import Domain
    from cumae.properties.checks import CheckName
    from cumae.properties.dialects import DIALECTS, Dialect, DialectName, Input, Output
    from cumae.properties.dialects.dump import case_from_tensors
    from cumae.properties.operations import OPERATIONS, Operation
    from cumae.properties.operations.drawn import cases, seeded
    from cumae.properties.operations.router import router
    from cumae.properties.pytest_plugin.conforms_to import conforms_to
    from cumae.properties.results.explain import explain
    from cumae.properties.results.verdict import Verdict
    from cumae.properties.running.tensors import tensors
    from cumae.properties.search.direct import check
    from cumae.properties.taking.take import take

    __version__: str

_HOMES = {
    "Batch": "cumae.oracle",
    "Case": "cumae.oracle",
    "CheckName": "cumae.properties.checks",
    "DIALECTS": "cumae.properties.dialects",
    "Dialect": "cumae.properties.dialects",
    "DialectName": "cumae.properties.dialects",
    "Domain": "cumae.properties.cases.domain",
    "Input": "cumae.properties.dialects",
    "Layout": "cumae.oracle",
    "OPERATIONS": "cumae.properties.operations",
    "Operation": "cumae.properties.operations",
    "OperationName": "cumae.oracle",
    "Options": "cumae.oracle",
    "Output": "cumae.properties.dialects",
    "Request": "cumae.oracle",
    "Verdict": "cumae.properties.results.verdict",
    "case_from_tensors": "cumae.properties.dialects.dump",
    "cases": "cumae.properties.operations.drawn",
    "check": "cumae.properties.search.direct",
    "conforms_to": "cumae.properties.pytest_plugin.conforms_to",
    "explain": "cumae.properties.results.explain",
    "router": "cumae.properties.operations.router",
    "seeded": "cumae.properties.operations.drawn",
    "take": "cumae.properties.taking.take",
    "tensors": "cumae.properties.running.tensors",
}

__all__ = [
    "DIALECTS",
    "OPERATIONS",
    "Batch",
    "Case",
    "CheckName",
    "Dialect",
    "DialectName",
    "Domain",
    "Input",
    "Layout",
    "Operation",
    "OperationName",
    "Options",
    "Output",
    "Request",
    "Verdict",
    "__version__",
    "case_from_tensors",
    "cases",
    "check",
    "conforms_to",
    "explain",
    "router",
    "seeded",
    "take",
    "tensors",
]


def __dir__() -> list[str]:
    return sorted(__all__)


if not TYPE_CHECKING:  # a type checker would take any name for one that is there

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            return import_module("importlib.metadata").version("cumae")
        if name in _HOMES:
            return getattr(import_module(_HOMES[name]), name)
        raise AttributeError(f"module 'cumae' has no attribute {name!r}{_hint(name)}")


def _hint(name: str) -> str:
    from cumae.oracle.model.rules import did_you_mean

    return did_you_mean(name, __all__)
