"""The checks that a kernel must pass, one a file."""

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import numpy as np

from cumae.oracle import INDEX_DTYPES, Batch, Case, Inputs, Layout, Request
from cumae.oracle.model.rules import require_choice
from cumae.properties.cases.promises import far_rows
from cumae.properties.checks.accepts_index_types import accepts_index_types
from cumae.properties.checks.accepts_strides import accepts_strides
from cumae.properties.checks.agrees import agrees
from cumae.properties.checks.forgets_history import forgets_history
from cumae.properties.checks.holds_in_any_order import holds_in_any_order
from cumae.properties.checks.ignores_garbage import ignores_garbage
from cumae.properties.checks.is_deterministic import is_deterministic
from cumae.properties.checks.keeps_facts import keeps_facts
from cumae.properties.checks.never_synchronises import never_synchronises
from cumae.properties.checks.replays_in_graph import replays_in_graph
from cumae.properties.checks.stays_in_bounds import stays_in_bounds
from cumae.properties.checks.survives_large_ids import survives_large_ids
from cumae.properties.checks.waits_for_arguments import waits_for_arguments
from cumae.properties.checks.writes_everything import writes_everything
from cumae.properties.dialects import Floats, Held, Ints, Rows
from cumae.properties.operations.binding import Binding
from cumae.properties.operations.strides import shows_strides
from cumae.properties.results.verdict import Finding
from cumae.properties.running.device import Device
from cumae.properties.running.sanitizer import sanitizing
from cumae.properties.running.trial import Trial
from cumae.properties.running.variants import enlarging, gaps_of

CheckName = Literal[
    "agrees",
    "writes_everything",
    "stays_in_bounds",
    "ignores_garbage",
    "is_deterministic",
    "holds_in_any_order",
    "forgets_history",
    "accepts_strides",
    "accepts_index_types",
    "keeps_facts",
    "survives_large_ids",
    "replays_in_graph",
    "never_synchronises",
    "waits_for_arguments",
]
Check = Callable[[Trial], Finding | None]
CHECKS: dict[str, Check] = {
    "agrees": agrees,
    "writes_everything": writes_everything,
    "stays_in_bounds": stays_in_bounds,
    "ignores_garbage": ignores_garbage,
    "is_deterministic": is_deterministic,
    "holds_in_any_order": holds_in_any_order,
    "forgets_history": forgets_history,
    "accepts_strides": accepts_strides,
    "accepts_index_types": accepts_index_types,
    "keeps_facts": keeps_facts,
    "survives_large_ids": survives_large_ids,
    "replays_in_graph": replays_in_graph,
    "never_synchronises": never_synchronises,
    "waits_for_arguments": waits_for_arguments,
}
ON_GPU_ONLY = ("replays_in_graph", "never_synchronises", "waits_for_arguments")
IN_INTERPRETER_ONLY = ("holds_in_any_order",)
_PROBE = Case(Batch((Request(1, 1, (1,)), Request(2, 1, (2,), "decode")), 4))


def checks_for(binding: Binding, device: Device = "cpu") -> tuple[str, ...]:
    """Return the checks that apply to a function on a device and that its domain promises.

    Raises ``ValueError`` if the domain leaves out a check that does not exist.
    """
    for name in binding.domain.all_but:
        require_choice("all_but", name, tuple(CHECKS))
    dropped = {*binding.domain.all_but}
    if device != "cuda" or not binding.domain.captured:
        dropped |= set(ON_GPU_ONLY)
    if device == "cuda":
        dropped |= set(IN_INTERPRETER_ONLY)
    if binding.keeps_state:
        dropped.add("waits_for_arguments")
    if not binding.outputs and not binding.keeps_state:
        dropped.add("replays_in_graph")
    # memcheck runs without PyTorch's caching allocator, and tensors of tens of gigabytes do not fit.
    if not _shows_large_ids(binding) or sanitizing() == "memcheck":
        dropped.add("survives_large_ids")
    if not (binding.domain.strided and shows_strides(binding)):
        dropped.add("accepts_strides")
    if len(binding.domain.among("index_dtype", INDEX_DTYPES)) < 2 or not _shows_index_dtype(binding):
        dropped.add("accepts_index_types")
    return tuple(name for name in CHECKS if name not in dropped)


def _shows_large_ids(binding: Binding) -> bool:
    """Whether cases can move beyond 2^31, without gaps if the function does not promise strides.

    A user's own operation says nothing of ids: an argument must then show them.
    """
    enlarge = enlarging(binding.operation)
    cases = [] if enlarge is None else list(enlarge(_PROBE))
    if binding.operation.enlarge is None:
        cases = [case for case in cases if _differ(_held(binding, _PROBE), _held(binding, case))]
    strided, far = binding.domain.strided, binding.domain.far_rows
    return any((strided or not gaps_of(c.layout)) and (far or not far_rows(c)) for c in cases)


def _differ(held: list[Held], other: list[Held]) -> bool:
    """Return whether an argument differs between two cases."""
    pairs = zip(held, other, strict=True)
    return any(
        not np.array_equal(a.values, b.values) if isinstance(a, Ints) and isinstance(b, Ints) else a != b
        for a, b in pairs
        if not isinstance(a, (Rows, Floats))
    )


def _shows_index_dtype(binding: Binding) -> bool:
    """Whether an input of the function has the width that the layout names."""
    wide = replace(_PROBE, layout=Layout(index_dtype="int64"))
    return any(
        isinstance(one, Ints) and isinstance(other, Ints) and one.dtype != other.dtype
        for one, other in zip(_held(binding, _PROBE), _held(binding, wide), strict=True)
    )


def _held(binding: Binding, case: Case) -> list[Held]:
    """Return the inputs of a function as the dialect holds them, and the outputs' content before a call."""
    inputs, forms = Inputs(case), [binding.forms[name] for name in binding.outputs]
    held = [binding.dialect.inputs[name].hold(inputs) for name in binding.inputs]
    return held + [form.before(inputs) for form in forms if form.before is not None]


__all__ = ["CHECKS", "IN_INTERPRETER_ONLY", "ON_GPU_ONLY", "Check", "CheckName", "Trial", "checks_for"]
