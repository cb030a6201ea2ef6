"""The lines of a report about a case beside its drawing: inputs, layout, options, and promises against it."""

import re
from collections.abc import Iterator
from dataclasses import fields
from textwrap import wrap
from typing import Any

from cumae.oracle import Case
from cumae.properties.results.verdict import Finding

MOST_COLUMNS, MOST_ENTRIES = 110, 8


def case_lines(case: Case, finding: Finding | None) -> list[str]:
    """Return the function's inputs, and the fields of layout and options that are not neutral, as text."""
    lines = _inputs_lines(finding.called_with) if finding and finding.called_with else []
    groups = [getattr(case.options, one.name) for one in fields(case.options)]
    for name, records in (("layout", [case.layout]), ("options", groups)):
        if odd := [told for record in records for told in _odd(record)]:
            lines.append(f"  {name}: {', '.join(odd)}")
    if case.batch.world > 1:
        lines.append(f"  world: {case.batch.world} ranks")
    if finding and finding.left_out_by:
        lines.append(f"  if no engine makes such a call: promise {finding.left_out_by}")
    if finding and finding.check == "forgets_history":
        lines.append("  if it keeps answers on purpose: promise Domain(all_but=('forgets_history',))")
    return lines


def _odd(record: Any) -> Iterator[str]:
    """Yield the fields of a record that are not neutral, with their values; of a list the first ones."""
    neutral = type(record)()
    for field in fields(record):
        value = getattr(record, field.name)
        if value == getattr(neutral, field.name):
            continue
        if isinstance(value, tuple) and len(value) > MOST_ENTRIES:
            first = ", ".join(map(repr, value[:MOST_ENTRIES]))
            yield f"{field.name}=({first}, … {len(value) - MOST_ENTRIES} more)"
        else:
            yield f"{field.name}={value!r}"


def _inputs_lines(called_with: str) -> list[str]:
    """Return the inputs in lines that break between two of them only."""
    together = re.sub(r", (?!\w+=)", ",\N{NO-BREAK SPACE}", f"called with: {called_with}")
    broken = wrap(
        together,
        MOST_COLUMNS,
        initial_indent="  ",
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in broken]
