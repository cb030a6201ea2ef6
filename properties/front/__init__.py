"""An executable specification of LLM serving metadata; it proves that a GPU kernel says the same."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cumae.oracle import Batch, Case, Layout, Options, Request
    from cumae.properties.batches.domain import Domain
    from cumae.properties.conformance import check, conforms_to
    from cumae.properties.verdict import Verdict

_HOMES = {
    "Batch": "cumae.oracle",
    "Case": "cumae.oracle",
    "Domain": "cumae.properties.batches.domain",
    "Layout": "cumae.oracle",
    "Options": "cumae.oracle",
    "Request": "cumae.oracle",
    "Verdict": "cumae.properties.verdict",
    "check": "cumae.properties.conformance",
    "conforms_to": "cumae.properties.conformance",
}

__all__ = ["Batch", "Case", "Domain", "Layout", "Options", "Request", "Verdict", "check", "conforms_to"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'cumae' has no attribute {name!r}")
