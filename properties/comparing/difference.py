"""Findings about an output: the first element that differs, in words, and the count."""

from dataclasses import replace
from typing import Any

import numpy as np

from cumae.properties.comparing.masks import Mask
from cumae.properties.operations.binding import Binding
from cumae.properties.results.verdict import Finding
from cumae.properties.running.observation import Observation
from cumae.properties.running.words import Words

MOST_MARKED = 4096


def difference(
    check: str,
    binding: Binding,
    name: str,
    where: Mask,
    expected: Words,
    actual: Words,
    what: str,
    cause: str = "",
) -> Finding:
    """Return the finding for the first element of ``where``."""
    wrong = np.flatnonzero(where)
    index, output = int(wrong[0]), binding.forms[name]
    first = int(np.argmax(expected[index] != actual[index]))
    return Finding(
        check,
        f"`{name}[{index}]` {what}",
        output.rule,
        output=name,
        index=index // output.per_item,
        expected=_text(expected[index], output.is_fp32, first),
        actual=_text(actual[index], output.is_fp32, first),
        count=len(wrong),
        total=len(where),
        axis=output.axis,
        wrong=tuple(int(i) // output.per_item for i in wrong[:MOST_MARKED]),
        cause=cause,
    )


def _text(word: Any, is_fp32: bool, first: int) -> str:
    """Return a value as text; for a row, the aligned eight bytes that hold the first that differs."""
    if is_fp32:
        return f"{np.int32(word).view(np.float32):.9g}"
    if np.ndim(word) == 0:
        return str(int(word))
    start = first // 8 * 8
    shown = " ".join(f"{int(byte):02x}" for byte in word[start : start + 8])
    before, behind = f"from byte {start}: " if start else "", " …" if start + 8 < len(word) else ""
    return f"{before}{shown}{behind}"


def about_output(check: str, binding: Binding, name: str, what: str) -> Finding:
    """Return a finding about an output as a whole. ``what``: the defect in words."""
    return Finding(check, f"`{name}` {what}", binding.forms[name].rule, output=name)


def with_strays(found: Finding, seen: Observation) -> Finding:
    """Return a finding of wrong values with the call's masked-off accesses added to its message."""
    if seen.watch is None or not seen.watch.outside:
        return found
    count = seen.watch.num_outside
    told = "1 access outside every tensor was masked off: "
    if count > 1:
        told = f"{count} accesses outside every tensor were masked off, the first: "
    told += str(seen.watch.outside[0])
    return replace(found, message=f"{found.message}; {told}")
