"""Coverage of interpreted kernels, collected by the marks that ``marking`` puts into their code."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from cumae.properties.interpreter.launchable import kernels_named_by
from cumae.properties.results.coverage import Condition, KernelCoverage, Loop, merged

TRUE, FALSE = 1, 2


class Outline(NamedTuple):
    """The places of one kernel that marks count; the fields are those of ``KernelCoverage``."""

    file: str
    name: str
    line: int
    lines: tuple[int, ...]
    conditions: tuple[Condition, ...]
    loops: tuple[int, ...]


@dataclass(slots=True)
class _Seen:
    """The lines and conditions of one kernel that ran. ``truths``: TRUE, FALSE or both, of each condition."""

    truths: list[int]
    turns: list[int]
    arcs: set[tuple[int, int]] = field(default_factory=set)


class Collected(dict[int, _Seen]):
    """The lines and conditions that ran of each kernel, by its number."""

    def __missing__(self, kernel: int) -> _Seen:
        outline = _OUTLINES[kernel]
        self[kernel] = _Seen([0] * len(outline.conditions), [0] * len(outline.loops))
        return self[kernel]

    def coverage(self, function: Any) -> tuple[KernelCoverage, ...]:
        """Return the coverage of each kernel that ran or that a function can launch, as plain data."""
        ran = [_coverage(_OUTLINES[kernel], seen) for kernel, seen in self.items()]
        return merged((*ran, *kernels_named_by(function, {kernel.file for kernel in ran})))


_OUTLINES: list[Outline] = []
_now: Collected | None = None


@contextmanager
def collecting() -> Iterator[Collected]:
    """Collect what interpreted kernels do; an inner collection takes its part from an outer one."""
    global _now
    before, _now = _now, Collected()
    try:
        yield _now
    finally:
        _now = before


def next_number() -> int:
    """Return the number of the next kernel, which its marks carry."""
    return len(_OUTLINES)


def add(outline: Outline) -> None:
    """Add the outline of the next kernel."""
    _OUTLINES.append(outline)


def ran(kernel: int, at: int, line: int) -> int:
    """Record a step from a line to the next one, and return that."""
    if _now is not None:
        _now[kernel].arcs.add((at, line))
    return line


def back(kernel: int, at: int, line: int) -> int:
    """Record the step back to the head of a loop, unless the head itself was the last line."""
    return line if at == line else ran(kernel, at, line)


def turn(kernel: int, loop: int, before: int) -> int:
    """Record one more turn of a loop, and return their number in this execution."""
    now = before + 1
    if _now is not None:
        turns = _now[kernel].turns
        if now > turns[loop]:
            turns[loop] = now
    return now


def asked(kernel: int, place: int, condition: Any) -> Any:
    """Record which values a condition has, and return it."""
    if _now is not None:
        truths = _now[kernel].truths
        if truths[place] != TRUE | FALSE:
            truths[place] |= _truths(condition)
    return condition


MARKS = {f"_cumae_{mark.__name__}": mark for mark in (ran, back, turn, asked)}
"""The functions that marked code calls, by their names there."""


def _truths(condition: Any) -> int:
    """Return TRUE, FALSE or both for a block, a number or a constexpr; 0 for anything else."""
    value = getattr(condition, "value", condition)
    handle = getattr(condition, "handle", None)
    if handle is not None:
        data = handle.data
        if data.size == 0:
            return 0
        if data.all():
            return TRUE
        return TRUE | FALSE if data.any() else FALSE
    if not isinstance(value, (bool, int)):
        return 0
    return TRUE if value else FALSE


def _coverage(outline: Outline, seen: _Seen) -> KernelCoverage:
    conditions = (
        Condition(c.line, c.column, c.kind, bool(truths & TRUE), bool(truths & FALSE))
        for c, truths in zip(outline.conditions, seen.truths, strict=True)
    )
    loops = (Loop(line, most) for line, most in zip(outline.loops, seen.turns, strict=True))
    file, name, line, lines = outline[:4]
    return KernelCoverage(file, name, line, lines, frozenset(seen.arcs), tuple(conditions), tuple(loops))
