"""Products in 32 bits that reach an address."""

from collections.abc import Iterator, Sequence

from cumae.properties.faults.dataflow import Module, Value
from cumae.properties.faults.flaw import WIDE, Flaw
from cumae.properties.faults.ranges import product_of, ranges_of, whole

_POINTERS = ("tt.advance", "tt.make_tensor_ptr", "tt.descriptor_")
_ENDS = {"arith.cmpi", "arith.cmpf", "tt.call", "tt.load", "tt.store", "tt.atomic_rmw", "tt.atomic_cas"}


def narrow_products(
    module: Module, kernel: str, arguments: Sequence[str], programs: Sequence[int]
) -> Iterator[Flaw]:
    """Yield the 32-bit products that can pass 2^31 and reach an address.

    ``arguments``: the kernel's, without constants; ``programs``: the most on each axis.
    """
    known = ranges_of(module, programs)
    for op in module.ops:
        if op.name not in ("arith.muli", "arith.shli") or op.results[0].bits != 32:
            continue
        low, high = product_of(op, known)
        least, most = whole(op.results[0])
        if least <= low and high <= most:
            continue
        reached = sorted({name for pointer in _reached(op.results[0]) for name in _roots(pointer, arguments)})
        if reached:
            file, line = module.place(op)
            names = ", ".join(f"`{name}`" for name in reached)
            text = f"a 32-bit product that can pass 2^31 reaches the address of {names}"
            yield Flaw(file, line, WIDE, kernel, text)


def _reached(product: Value) -> Iterator[Value]:
    """Yield the pointers to which a value, or what is computed from it, is added."""
    seen, waiting = {product}, [product]
    while waiting:
        value = waiting.pop()
        following = list(value.flows)
        for op, place in value.uses:
            if op.name == "tt.addptr" or op.name.startswith(_POINTERS):
                if place > 0:
                    yield op.operands[0]
            elif op.name not in _ENDS and not (op.name == "arith.select" and place == 0):
                following += [result for result in op.results if result.op is op and op.name != "scf.for"]
                following += op.results[-1:] if op.name == "scf.for" and place == 0 else []
        waiting += [value for value in following if value not in seen]
        seen.update(following)


def _roots(pointer: Value, arguments: Sequence[str]) -> set[str]:
    """Return the kernel's arguments that a pointer comes from."""
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
