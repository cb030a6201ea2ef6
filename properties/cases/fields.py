"""The case fields that features vary: reading, comparing with settled values, drawing."""

from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from cumae.oracle import Case
from cumae.oracle.model.options import GROUP_OF
from cumae.properties.cases.draw import Draw
from cumae.properties.cases.feature import Feature, Record
from cumae.properties.cases.features import FEATURES


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


@lru_cache(maxsize=256)
def reader_of(names: tuple[str, ...]) -> Callable[[Case], tuple[Any, ...]]:
    """Return a function that reads these fields of a case, and before them its batch."""
    return attrgetter("batch", *(_PLACES[name] for name in names))


def hidden(case: Case, settled: Mapping[str, Any], shown: frozenset[str]) -> set[str]:
    """Return the features, other than the shown ones, whose fields differ from their settled values."""
    told, names, values_of, settled_of = _hideable(shown)
    found = {row.name for row in told if row.varies is not None and row.varies(case)}
    have, usual = values_of(case), settled_of(settled)
    if have[2:] != usual[2:]:
        found |= {name for name, value, own in zip(names, have[2:], usual[2:], strict=True) if value != own}
    return found


class _Hideable(NamedTuple):
    """Rows that are not shown: those that a function of the case tells, and the fields of the others.

    ``names``: of the feature of each field. ``values_of``, ``settled_of``: return the values of two other
    places and of the fields, in a case and in a mapping.
    """

    told_by_case: list[Feature]
    names: list[str]
    values_of: Callable[[Case], tuple[Any, ...]]
    settled_of: Callable[[Mapping[str, Any]], tuple[Any, ...]]


@lru_cache(maxsize=256)
def _hideable(shown: frozenset[str]) -> _Hideable:
    rows = [row for row in FEATURES if not row.always and row.name not in shown]
    pairs = [(row.name, name) for row in rows if row.varies is None for name in row.fields]
    fields = [name for _, name in pairs]
    values_of = attrgetter("batch", "layout", *(_PLACES[name] for name in fields))
    settled_of = itemgetter("world", "world", *fields)
    return _Hideable([row for row in rows if row.varies], [name for name, _ in pairs], values_of, settled_of)


def draw_record(d: Draw, record: Record, features: Collection[str]) -> dict[str, Any]:
    """Return the fields of a record; features that are not listed get settled values."""
    d.features = features
    values, settled = d.values, d.domain.settled_values
    drawn, others = _drawn_of(record, frozenset(features))
    values.update({name: settled[name] for name in others})
    for row in drawn:
        if len(row.fields) == 1:
            values[row.fields[0]] = row.draw(d)
        else:
            values |= zip(row.fields, row.draw(d), strict=True)
    return values


@lru_cache(maxsize=256)
def _drawn_of(record: Record, features: frozenset[str]) -> tuple[list[Feature], list[str]]:
    """Return the rows of a record that are drawn, and the fields of all others."""
    drawn = [row for row in _ROWS[record] if row.always or row.name in features]
    return drawn, [name for row in _ROWS[record] if row not in drawn for name in row.fields]
