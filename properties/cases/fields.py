"""The case fields that features vary: reading, comparing with settled values, drawing."""

from collections.abc import Callable, Collection
from operator import attrgetter
from typing import Any

from cumae.oracle import Case
from cumae.oracle.model.options import GROUP_OF
from cumae.properties.cases.feature import Record
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


_PLACES = _places()
_values_of = attrgetter(*_PLACES.values())


def fields_of(case: Case) -> dict[str, Any]:
    """Return the value of every field that features vary."""
    return dict(zip(_PLACES, _values_of(case), strict=True))


def varied(case: Case, settled: Callable[[str], Any]) -> set[str]:
    """Return the features whose fields differ from their settled values in a case."""
    values = fields_of(case)
    found = set()
    for row in FEATURES:
        own = any(values[name] != settled(name) for name in row.fields)
        if not row.always and (row.varies(case) if row.varies else own):
            found.add(row.name)
    return found


def draw_record(d: Draw, record: Record, features: Collection[str]) -> dict[str, Any]:
    """Return the fields of a record; features that are not listed get settled values."""
    d.features = features
    for row in FEATURES:
        if row.record != record:
            continue
        if row.always or row.name in features:
            drawn = row.draw(d)
            d.values |= zip(row.fields, drawn if len(row.fields) > 1 else (drawn,), strict=True)
        else:
            d.values |= {name: d.domain.settled(name) for name in row.fields}
    return d.values
