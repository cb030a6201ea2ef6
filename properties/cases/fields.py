"""The case fields that features vary: reading, comparing with settled values, drawing."""

from collections.abc import Callable, Collection
from typing import Any

from cumae.oracle import Case
from cumae.properties.cases.feature import Record
from cumae.properties.cases.features import FEATURES
from cumae.properties.cases.values import Draw


def fields_of(case: Case) -> dict[str, Any]:
    """Return the value of every field that features vary."""
    layout, options, found = case.layout, case.options, {"world": case.batch.world}
    for row in FEATURES:
        for name in row.fields:
            if row.record == "layout":
                found[name] = getattr(layout, name)
            elif row.record == "options":
                found[name] = options.value(name)
    return found


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
