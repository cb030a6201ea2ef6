"""32-bit products that reach an address, or are widened to 64 bits too late."""

from collections.abc import Iterator, Sequence

from cumae.properties.lint.dataflow import Module, Value
from cumae.properties.lint.flaw import WIDE, Flaw
from cumae.properties.lint.ranges import product_of, ranges_of, whole

_POINTERS = ("tt.advance", "tt.make_tensor_ptr", "tt.descriptor_")
_ENDS = {"arith.cmpi", "arith.cmpf", "tt.call", "tt.load", "tt.store", "tt.atomic_rmw", "tt.atomic_cas"}


def narrow_products(
    module: Module, kernel: str, arguments: Sequence[str], programs: Sequence[int]
) -> Iterator[Flaw]:
    """Yield the 32-bit products that can pass 2^31 and reach an address, or are stored widened.

    ``arguments``: the kernel's arguments without constants; ``programs``: the most programs on each axis.
    """
    known = ranges_of(module, programs)
    for op in module.ops:
        if op.name not in ("arith.muli", "arith.shli") or op.results[0].bits != 32:
            continue
        low, high = product_of(op, known)
        least, most = whole(op.results[0])
        if least <= low and high <= most:
            continue
        for does, pointers in _reached(op.results[0]).items():
            file, line = module.place(op)
            named = sorted({f"`{name}`" for pointer in pointers for name in _roots(pointer, arguments)})
            text = f"a 32-bit product that can pass 2^31 {does} {', '.join(named)}"
            yield Flaw(file, line, WIDE, kernel, text)


def _reached(product: Value) -> dict[str, list[Value]]:
    """Return the pointers that a product is added to or, after widening, stored through; by kind of use."""
    found: dict[str, list[Value]] = {}
    start = (product, False)
    seen, waiting = {start}, [start]
    while waiting:
        value, is_widened = waiting.pop()
        following = [(after, is_widened) for after in value.flows]
        for op, place in value.uses:
            if op.name == "tt.addptr" or op.name.startswith(_POINTERS):
                if place > 0:
                    found.setdefault("reaches the address of", []).append(op.operands[0])
            elif op.name == "tt.store" and place == 1 and is_widened:
                found.setdefault("is widened too late and stored in", []).append(op.operands[0])
            elif op.name not in _ENDS and not (op.name == "arith.select" and place == 0):
                widens = is_widened or op.name in ("arith.extsi", "arith.extui")
                if op.name == "scf.for":  # the counter takes the value of the lower bound only
                    following += [(op.results[-1], is_widened)] if place == 0 else []
                else:
                    following += [(result, widens) for result in op.results if result.op is op]
        waiting += [item for item in following if item not in seen]
        seen.update(following)
    return found


def _roots(pointer: Value, arguments: Sequence[str]) -> set[str]:
    """Return the kernel arguments that a pointer is computed from."""
    found: set[str] = set()
    seen, waiting = {pointer}, [pointer]
    while waiting:
        value = waiting.pop()
        if value.argument >= 0:
            found.add(arguments[value.argument])
        before = list(value.sources)
        if value.op is not None and value.op.name == "tt.load":
            found.add("a pointer that was loaded")
        elif value.op is not None:
            ways = value.op.operands[1:] if value.op.name == "arith.select" else value.op.operands[:1]
            before += ways
        waiting += [value for value in before if value not in seen]
        seen.update(before)
    return found
