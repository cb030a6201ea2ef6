"""The least and the largest value that each integer of a kernel can have, for any input."""

import re
from collections.abc import Callable, Sequence

from cumae.properties.lint.dataflow import Module, Op, Value

Range = tuple[int, int]
_EXACT_TURNS = 3
_UNCHANGED = {
    "arith.extsi",
    "arith.extui",
    "arith.index_cast",
    "tt.broadcast",
    "tt.expand_dims",
    "tt.reshape",
    "tt.splat",
    "tt.split",
    "tt.trans",
}
_HULL = {"tt.cat", "tt.join"}


def ranges_of(module: Module, programs: Sequence[int]) -> dict[Value, Range]:
    """Return the range of each integer value; ``programs``: the most programs on each axis.

    Loaded and passed-in numbers have the range of their type. Sums are assumed not to wrap; a product that
    can overflow its type may have any value.
    """
    known = {value: whole(value) for value in module.merges if value.bits and not value.sources}
    turn, changed = 0, True
    while changed:
        before = dict(known)
        for op in module.ops:
            given = [known.get(operand) for operand in op.operands]
            for value in op.results:
                if value.bits and value.op is op and (found := _range(op, value, given, programs)):
                    known[value] = found
        for value in module.merges:
            found = _hull([known[source] for source in value.sources if source in known])
            if value.bits and value.sources and found:
                grew = turn >= _EXACT_TURNS and found != before.get(value, found)
                known[value] = whole(value) if grew else found
        turn, changed = turn + 1, known != before
    return known


def product_of(op: Op, known: dict[Value, Range]) -> Range:
    """Return the range of a product or a left shift before it is cut to its type."""
    (low, high), (least, most) = (known.get(value, whole(value)) for value in op.operands)
    if op.name == "arith.shli":
        least, most = 1 << min(max(least, 0), 64), 1 << min(max(most, 0), 64)
    ends = [a * b for a in (low, high) for b in (least, most)]
    return min(ends), max(ends)


def whole(value: Value) -> Range:
    """Return the range of an integer's type."""
    if value.bits == 1:
        return 0, 1
    return -(1 << (value.bits - 1)), (1 << (value.bits - 1)) - 1


def _range(op: Op, value: Value, given: list[Range | None], programs: Sequence[int]) -> Range | None:
    """Return the range of a result; None while an operand has no range."""
    constant = _constant(op, programs)
    if constant is not None:
        return constant
    if op.name == "scf.for":
        return (
            None if given[0] is None or given[1] is None else (given[0][0], max(given[1][1] - 1, given[0][0]))
        )
    operands = [found for found in (given[1:] if op.name == "arith.select" else given) if found]
    if op.name in _FORMULAS and len(op.operands) == 2:
        if None in given:
            return None
        return _fitted(_FORMULAS[op.name](operands[0], operands[1]), value)
    if op.name in ("arith.muli", "arith.shli"):
        if None in given:
            return None
        found = product_of(op, {v: r for v, r in zip(op.operands, given, strict=True) if r})
        return found if _fits(found, value) else whole(value)
    if op.name in _UNCHANGED | _HULL | {"arith.select"}:
        return _fitted(_hull(operands), value)
    if op.name == "arith.trunci" and operands:
        return operands[0] if _fits(operands[0], value) else whole(value)
    return whole(value)


def _constant(op: Op, programs: Sequence[int]) -> Range | None:
    if op.name == "arith.constant":
        if match := re.search(r"constant (?:dense<)?(-?\d+|true|false)>? ?(?::|$)", op.text):
            number = {"true": 1, "false": 0}.get(match[1])
            return (int(match[1]),) * 2 if number is None else (number, number)
        return None
    if op.name == "tt.make_range":
        ends = dict(re.findall(r"(end|start) = (\d+)", op.text))
        return int(ends["start"]), int(ends["end"]) - 1
    if op.name in ("tt.get_program_id", "tt.get_num_programs"):
        axis = re.search(r" ([xyz])\b", op.text)
        most = programs["xyz".index(axis[1])] if axis else max(programs)
        return (0, max(most - 1, 0)) if op.name == "tt.get_program_id" else (1, max(most, 1))
    return None


def _quotient(a: Range, b: Range) -> Range:
    divisors = [d for d in (*b, 1, -1) if d and b[0] <= d <= b[1]]
    ends = [abs(n) // abs(d) * (1 if (n < 0) == (d < 0) else -1) for n in a for d in divisors]
    ends += [0] if a[0] <= 0 <= a[1] else []
    return (min(ends), max(ends)) if ends else a


def _rest(a: Range, b: Range) -> Range:
    most = max(abs(b[0]), abs(b[1]), 1) - 1
    return (max(a[0], -most) if a[0] < 0 else 0), (min(a[1], most) if a[1] > 0 else 0)


def _common_bits(a: Range, b: Range) -> Range:
    positive = [r[1] for r in (a, b) if r[0] >= 0]
    return (0, min(positive)) if positive else (min(a[0], b[0]), max(a[1], b[1]))


def _shifted(a: Range, b: Range) -> Range:
    ends = [n >> min(max(s, 0), 64) for n in a for s in b]
    return min(ends), max(ends)


_FORMULAS: dict[str, Callable[[Range, Range], Range]] = {
    "arith.addi": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "arith.subi": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "arith.minsi": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "arith.maxsi": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "arith.divsi": _quotient,
    "arith.remsi": _rest,
    "arith.andi": _common_bits,
    "arith.shrsi": _shifted,
}


def _hull(ranges: Sequence[Range]) -> Range | None:
    return (min(low for low, _ in ranges), max(high for _, high in ranges)) if ranges else None


def _fits(found: Range, value: Value) -> bool:
    low, high = whole(value)
    return low <= found[0] and found[1] <= high


def _fitted(found: Range | None, value: Value) -> Range | None:
    """Cut a range at the ends of its type: sums are assumed not to wrap."""
    if found is None:
        return None
    low, high = whole(value)
    return min(max(found[0], low), high), max(min(found[1], high), low)
