"""The coverage of interpreted kernels as plain data: what ran, and in words what a search did not ask."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from os.path import basename
from typing import Any, Literal

Kind = Literal["mask", "where", "if"]
MOST_TOLD = 8
"""Things told of one kernel; the JSON has them all."""


@dataclass(frozen=True, slots=True)
class Condition:
    """The mask of an access, the condition of a ``where`` or of an ``if`` without ``else``, at its place.

    ``was_true``, ``was_false``: whether a lane was, in any program of any call.
    """

    line: int
    column: int
    kind: Kind
    was_true: bool = False
    was_false: bool = False


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop and the most turns that one execution of it took."""

    line: int
    most_turns: int = 0


@dataclass(frozen=True, slots=True)
class KernelCoverage:
    """The lines that ran of one kernel, or of a device function that a kernel calls.

    ``line``: its first line, with decorators. ``lines``: the first line of each statement; none if the
    function never ran. ``arcs``: steps from statement to statement that were taken, by line; a
    negative line enters or leaves the function.
    """

    file: str
    name: str
    line: int
    lines: tuple[int, ...] = ()
    arcs: frozenset[tuple[int, int]] = frozenset()
    conditions: tuple[Condition, ...] = ()
    loops: tuple[Loop, ...] = ()

    @property
    def ran(self) -> frozenset[int]:
        """The lines that ran."""
        return frozenset(line for _, line in self.arcs if line > 0)

    @property
    def never_ran(self) -> tuple[int, ...]:
        """The lines that can run and never did."""
        ran = self.ran
        return tuple(line for line in self.lines if line not in ran)


def merged(parts: Iterable[KernelCoverage]) -> tuple[KernelCoverage, ...]:
    """Return one coverage for each kernel: the union of its parts."""
    whole: dict[tuple[str, int, str], KernelCoverage] = {}
    for part in parts:
        key = (part.file, part.line, part.name)
        whole[key] = _union(whole[key], part) if key in whole else part
    return tuple(whole[key] for key in sorted(whole))


def _union(one: KernelCoverage, other: KernelCoverage) -> KernelCoverage:
    conditions = {(c.line, c.column, c.kind): c for c in one.conditions}
    for key, c in {(c.line, c.column, c.kind): c for c in other.conditions}.items():
        known = conditions.get(key, c)
        was_true, was_false = known.was_true or c.was_true, known.was_false or c.was_false
        conditions[key] = replace(c, was_true=was_true, was_false=was_false)
    turns = {loop.line: loop.most_turns for loop in one.loops}
    turns |= {loop.line: max(loop.most_turns, turns.get(loop.line, 0)) for loop in other.loops}
    return replace(
        one,
        lines=tuple(sorted({*one.lines, *other.lines})),
        arcs=one.arcs | other.arcs,
        conditions=tuple(conditions[key] for key in sorted(conditions)),
        loops=tuple(Loop(line, turns[line]) for line in sorted(turns)),
    )


def not_asked(kernel: KernelCoverage) -> list[str]:
    """Return in words which lines never ran, which conditions never changed, which loops never repeated.

    Conditions and loops on lines that never ran are left out, as are masks that were always None.
    """
    if not kernel.ran:
        return ["it never ran"]
    told = [f"{_span(*run)} never ran" for run in _runs(kernel.lines, set(kernel.never_ran))]
    for c in kernel.conditions:
        # A branch that is never taken has lines that never ran.
        if c.was_true != c.was_false and not (c.kind == "if" and c.was_false):
            told.append(f"{c.kind} at line {c.line} never {'false' if c.was_true else 'true'}")
    for loop in kernel.loops:
        if loop.line in kernel.ran and loop.most_turns == 1:
            told.append(f"loop at line {loop.line} never ran twice")
    return list(dict.fromkeys(told))


def coverage_lines(kernels: Sequence[KernelCoverage]) -> Iterator[str]:
    """Yield a line of text for each kernel: how many of its lines ran, and what it was not asked."""
    for kernel in kernels:
        where = f"{kernel.name} ({basename(kernel.file)}:{kernel.line})"
        if not kernel.ran:
            yield f"{where}: never ran"
            continue
        told = not_asked(kernel)
        rest = f"; and {len(told) - MOST_TOLD} more" if len(told) > MOST_TOLD else ""
        missing = f"; not asked: {'; '.join(told[:MOST_TOLD])}{rest}" if told else ""
        num_lines = len(kernel.lines)
        yield f"{where}: {num_lines - len(kernel.never_ran)} of {num_lines} lines ran{missing}"


def coverage_data(kernel: KernelCoverage) -> dict[str, Any]:
    """Return a kernel's coverage as JSON data; ``never_ran`` is there for readers."""
    return {**asdict(kernel), "arcs": sorted(kernel.arcs), "never_ran": kernel.never_ran}


def coverage_of_data(data: Mapping[str, Any]) -> KernelCoverage:
    """Return the coverage that ``coverage_data`` wrote, also after a way through JSON."""
    return KernelCoverage(
        data["file"],
        data["name"],
        data["line"],
        tuple(data["lines"]),
        frozenset((start, end) for start, end in data["arcs"]),
        tuple(Condition(**one) for one in data["conditions"]),
        tuple(Loop(**one) for one in data["loops"]),
    )


def _runs(lines: Sequence[int], missing: set[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and last line of each run of statements that are missing."""
    first = last = 0
    for line in lines:
        if line in missing:
            first, last = first or line, line
        elif first:
            yield first, last
            first = 0
    if first:
        yield first, last


def _span(first: int, last: int) -> str:
    return f"line {first}" if first == last else f"lines {first}-{last}"
