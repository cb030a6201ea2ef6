"""A feature of a case: what may vary in it, and how everybody learns of that."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from cumae.oracle import Case
from cumae.properties.cases.values import Draw

Record = Literal["batch", "layout", "options"]
Small = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """A row. ``fields``: of ``record``, drawn together, as a tuple where there are several.

    ``name``: of the feature, which several rows may share. ``always``: whether it varies for every function,
    because none is told of it. ``draw``: returns the value or values. ``small``: the fields, of any record,
    of steps of the small domain. ``simpler``: values that the reducer tries together. ``shown_by``: inputs of
    the dialect cumae that show it, beside those of its name and of its fields. ``varies``: whether a case
    shows it, where its fields do not say so. ``needs``: fields that go with a promised value.
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


def row(record: Record, names: str, draw: Callable[[Draw], Any], name: str = "", **more: Any) -> Feature:
    """Return the row of some fields; its name is that of the first."""
    own = tuple(names.split())
    return Feature(fields=own, record=record, draw=draw, name=name or own[0], **more)


def always(names: str, draw: Callable[[Draw], Any]) -> Feature:
    """Return the row of a field of the layout that varies for every function."""
    return row("layout", names, draw, always=True)
