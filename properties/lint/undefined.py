"""Masked loads without `other`: the values in masked-out lanes are undefined."""

import re
from collections.abc import Iterator

from cumae.properties.lint.dataflow import Module, Op, Value
from cumae.properties.lint.flaw import DEFINED, Flaw

Mask = frozenset[tuple[Value | None, tuple[str, ...]]]
_BRANCHES = {"cf.cond_br", "scf.condition", "scf.for", "scf.if"}
_SUMS = {"tt.dot", "tt.gather", "tt.histogram", "tt.reduce", "tt.scan"}
_HANDED_ON = {"scf.for", "tt.call"}
_SHAPES = {"tt.broadcast", "tt.splat"}
_MOVES = {"tt.expand_dims", "tt.reshape", "tt.trans"}
_LOST: Mask = frozenset({(None, ())})


def undefined_loads(module: Module, kernel: str) -> Iterator[Flaw]:
    """Yield the masked loads without `other` whose undefined lanes reach a result.

    They do through a sum over lanes or a branch, and through an address, a mask or a stored value unless the
    access has the load's mask, or one that implies it.
    """
    for op in module.ops:
        if op.name != "tt.load" or len(op.operands) != 2:
            continue
        reached = _reached(op)
        if reached:
            file, line = module.place(op)
            where = "; ".join(dict.fromkeys(f"{what}, line {module.place(at)[1]}" for what, at in reached))
            yield Flaw(file, line, DEFINED, kernel, f"a masked load without `other` reaches {where}")


def _reached(load: Op) -> list[tuple[str, Op]]:
    """Return the harmful uses of undefined lanes, each with its operation."""
    found = []
    start = (load.results[0], _lanes(load.operands[1]))
    seen, waiting = {start}, [start]
    while waiting:
        value, mask = waiting.pop()
        following = [(after, _carried(mask, after)) for after in value.flows]
        if any(op.name in _SUMS for op, _ in value.uses):
            following = []  # the sum itself is reported
        for op, place in value.uses:
            arrived = _arrival(op, place, mask)
            if arrived:
                found.append((arrived, op))
            elif not _is_masked_away(op, place, mask):
                moved = _moved(mask, op)
                own = [] if op.name in _HANDED_ON else op.results
                following += [(result, moved) for result in own if result.op is op]
        waiting += [item for item in following if item not in seen]
        seen.update(following)
    return found


def _arrival(op: Op, place: int, mask: Mask) -> str:
    """Return the use in which an undefined operand does harm, empty if it does none."""
    if op.name in _SUMS:
        covered = op.name == "tt.histogram" and len(op.operands) == 2 and mask <= _lanes(op.operands[1])
        return "" if covered else "a sum over lanes"
    if op.name in _BRANCHES and place < (3 if op.name == "scf.for" else 1):
        return "a branch"
    if op.name not in ("tt.load", "tt.store", "tt.atomic_rmw", "tt.atomic_cas"):
        return ""
    guard = {"tt.load": 1, "tt.store": 2, "tt.atomic_rmw": 2}.get(op.name, len(op.operands))
    covered = guard < len(op.operands) and mask <= _lanes(op.operands[guard])
    if covered or (op.name == "tt.load" and place == 2):
        return ""
    return "an address" if place == 0 else "a mask" if place == guard else "a store that its mask leaves out"


def _is_masked_away(op: Op, place: int, mask: Mask) -> bool:
    """Return whether the undefined lanes are replaced by defined ones."""
    if op.name == "arith.andi":
        return mask <= _lanes(op.operands[1 - place])
    return op.name == "arith.select" and place == 1 and mask <= _lanes(op.operands[0])


def _lanes(mask: Value, moves: tuple[str, ...] = ()) -> Mask:
    """Return the conditions whose conjunction is the mask, each with its lane moves."""
    op = mask.op
    if op is not None and op.name == "arith.andi":
        return _lanes(op.operands[0], moves) | _lanes(op.operands[1], moves)
    if op is not None and op.name in _SHAPES:
        return _lanes(op.operands[0], moves)
    if op is not None and op.name in _MOVES:
        return _lanes(op.operands[0], (_move(op), *moves))
    return frozenset({(mask, moves)})


def _move(op: Op) -> str:
    """Return a key of an operation's change to the order of lanes."""
    shape = "x".join(re.findall(r"\d+(?=x)", op.text.rpartition("->")[2]))
    return f"{op.name} {op.text.partition('{')[2].partition('}')[0]} {shape}"


def _moved(mask: Mask, op: Op) -> Mask:
    if op.name not in _MOVES:
        return mask
    return frozenset((condition, (*moves, _move(op))) for condition, moves in mask)


def _carried(mask: Mask, after: Value) -> Mask:
    """Return the mask of a value in the next round of a loop, which this round's conditions do not cover."""
    of_round = after.loop is not None and any(
        condition is not None and condition.op is not None and after.loop in condition.op.around
        for condition, _ in mask
    )
    return mask | _LOST if of_round else mask
