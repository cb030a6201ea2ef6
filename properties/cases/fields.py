"""The case fields that features vary: reading, comparing with settled values, drawing."""

from collections.abc import Callable, Collection
from functools import lru_cache
from operator import attrgetter
from typing import Any

from cumae.oracle import Case
from cumae.oracle.model.options import GROUP_OF
from cumae.properties.cases.feature import Feature, Record
from cumae.properties.cases.features import FEATURES
from cumae.properties.cases.values import Draw


def _places() -> dict[str, str]:
    """Return where a case has each field that features vary."""
    found = {"world": "batch.world"}
    for row in FEATURES:
        for name in row.fields:
            if row.record == "layout":
                found[name] = f"layout.{name}"
            elif row.record == "options":
                found[name] = f"options.{GROUP_OF[name]}.{name}"
    return found


_ROWS = {record: [row for row in FEATURES if row.record == record] for record in ("layout", "options")}
_PLACES = _places()
_values_of = attrgetter(*_PLACES.values())


def fields_of(case: Case) -> dict[str, Any]:
    """Return the value of every field that features vary."""
    return dict(zip(_PLACES, _values_of(case), strict=True))


def hidden(case: Case, settled: Callable[[str], Any], shown: frozenset[str]) -> set[str]:
    """Return the features, other than the shown ones, whose fields differ from their settled values."""
    rows, names, values_of = _hideable(shown)
    differ = {name for name, value in zip(names, values_of(case), strict=False) if value != settled(name)}
    return {r.name for r in rows if (r.varies(case) if r.varies else not differ.isdisjoint(r.fields))}


@lru_cache(maxsize=256)
def _hideable(shown: frozenset[str]) -> tuple[list[Feature], list[str], Callable[[Case], tuple[Any, ...]]]:
    """Return the rows that are not shown, their fields, and what returns the fields' values and two more."""
    rows = [row for row in FEATURES if not row.always and row.name not in shown]
    names = [name for row in rows for name in row.fields]
    return rows, names, attrgetter(*(_PLACES[name] for name in names), "batch", "layout")


def draw_record(d: Draw, record: Record, features: Collection[str]) -> dict[str, Any]:
    """Return the fields of a record; features that are not listed get settled values."""
    d.features = features
    values, settled = d.values, d.domain.settled
    for row in _ROWS[record]:
        if not (row.always or row.name in features):
            for name in row.fields:
                values[name] = settled(name)
        elif len(row.fields) == 1:
            values[row.fields[0]] = row.draw(d)
        else:
            values |= zip(row.fields, row.draw(d), strict=True)
    return values
