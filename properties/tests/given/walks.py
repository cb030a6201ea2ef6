"""Walks of the engine model: steps that follow each other in the same buffers."""

from dataclasses import replace
from itertools import islice
from typing import Any

from cumae.oracle import Case
from cumae.properties.cases.features import NAMES
from cumae.properties.operations.binding import Binding, binding_of
from cumae.properties.operations.targets import load_function
from cumae.properties.state.walks import walk


def bound(operation: str, target: str, dialect: str = "cumae") -> Binding:
    """Return the binding of a function that is given by name."""
    return binding_of(load_function(target), operation, dialect)


def everything() -> Binding:
    """Return a binding that shows every feature, so that the engine varies all of them."""
    return replace(bound("slot_mapping", "cumae.gpu_impl:write_slot_mapping"), features=NAMES)


def steps_of(number: int, count: int, **more: Any) -> list[Case]:
    """Return the first steps of a walk that varies everything."""
    return list(islice(walk(everything(), number, **more), count))
