"""A feature of a case: a property that may vary, and how the other modules handle it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from cumae.oracle import Case
from cumae.properties.cases.draw import Draw

Record = Literal["batch", "layout", "options"]
Small = Mapping[str, Any]
BOTH = (False, True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """One row of features. ``fields``: of ``record``, drawn together, as a tuple if there are several.

    ``name``: of the feature, which several rows may share. ``always``: whether it varies for every function,
    because no input names it. ``draw``: returns the value or values. ``small``: the fields, of any record,
    for steps of the small domain. ``simpler``: values that the reducer tries together. ``shown_by``: inputs
    of the dialect cumae that show it, beside those with its name or its fields' names. ``varies``: whether a
    case shows it, if its fields do not tell. ``needs``: fields that go with a promised value. ``engines``:
    values that engines run, all pairs of which are drawn.
    """

    fields: tuple[str, ...]
    record: Record
    draw: Callable[[Draw], Any]
    name: str
    always: bool = False
    small: tuple[Small, ...] = ()
    simpler: tuple[tuple[Any, ...], ...] = ()
    shown_by: tuple[str, ...] = ()
    varies: Callable[[Case], bool] | None = None
    needs: Mapping[str, Any] | None = None
    engines: tuple[Any, ...] = ()


def row(record: Record, names: str, draw: Callable[[Draw], Any], name: str = "", **more: Any) -> Feature:
    """Return the row of some fields, named after the first."""
    own = tuple(names.split())
    return Feature(fields=own, record=record, draw=draw, name=name or own[0], **more)


def always(names: str, draw: Callable[[Draw], Any], **more: Any) -> Feature:
    """Return the row of a layout field that varies for every function."""
    return row("layout", names, draw, always=True, **more)
