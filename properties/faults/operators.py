"""Fault operators: each looks at one node of a syntax tree and yields replacements."""

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass

GARBAGE = "85"
"""Masked-out lanes of a load without ``other``: undefined on a device, 0 in the interpreter."""
ACCESSES = ("load", "store", "atomic_max", "atomic_min", "atomic_add", "atomic_cas")
_EXCHANGED = {
    "min": "max",
    "max": "min",
    "minimum": "maximum",
    "maximum": "minimum",
    "atomic_max": "atomic_min",
    "atomic_min": "atomic_max",
    "any": "all",
    "all": "any",
}
_COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<=", "- 1"),
    ast.LtE: ("<", "+ 1"),
    ast.Gt: (">=", "+ 1"),
    ast.GtE: (">", "- 1"),
    ast.Eq: ("!=", ""),
    ast.NotEq: ("==", ""),
    ast.Is: ("is not", ""),
    ast.IsNot: ("is", ""),
}
_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "+",
    ast.FloorDiv: "%",
    ast.Mod: "//",
    ast.BitAnd: "|",
    ast.BitOr: "&",
}
_KEEPS_LEFT_ONLY = (ast.FloorDiv, ast.Mod)


@dataclass(frozen=True, slots=True)
class Fault:
    """A replacement of a node: the operator's name, and the text that takes the node's place."""

    operator: str
    text: str


@dataclass(frozen=True, slots=True)
class Names:
    """The names of a function that may replace each other: ``bound`` with the line that binds each.

    ``pointers``: names that are loaded from or stored to; ``attributes``: those that its class's methods set.
    """

    bound: dict[str, int]
    pointers: frozenset[str] = frozenset()
    attributes: frozenset[str] = frozenset()

    def beside(self, name: str, line: int) -> list[str]:
        """Return the names bound before a line: pointers for a pointer, others for any other name."""
        points = name in self.pointers
        return [n for n, at in self.bound.items() if at < line and (n in self.pointers) == points]


def faults_of(node: ast.AST, names: Names, *, in_kernel: bool) -> Iterator[Fault]:
    """Yield every fault that can replace a node."""
    other: str | None
    match node:
        case ast.Compare(ops=[op], left=left, comparators=[right]):
            yield from _compare(op, left, right)
        case ast.BinOp():
            yield from _binary(node, names)
        case ast.Constant(value=int() as number) if type(number) is int:
            yield from _constant(number)
        case ast.Constant(value=bool() as flag):
            yield Fault("flag turned", str(not flag))
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as number)):
            yield from _constant(-number)
        case ast.UnaryOp(op=ast.USub(), operand=ast.BinOp(ast.UnaryOp(ast.USub(), a), ast.FloorDiv(), b)):
            yield Fault("rounded down", f"{_arm(a)} // {_arm(b)}")
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield Fault("condition negated", ast.unparse(operand))
        case ast.Call():
            yield from _call(node)
        case ast.BoolOp(values=values):
            for value in values:
                yield Fault("operand dropped", ast.unparse(value))
        case ast.IfExp(body=body, orelse=orelse):
            yield Fault("choice dropped", ast.unparse(body))
            yield Fault("choice dropped", ast.unparse(orelse))
        case ast.Name(id=name, ctx=ast.Load()):
            other = alike(name, names.beside(name, node.lineno))
            if name in names.bound and other:
                yield Fault("name exchanged", other)
        case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Load()):
            other = alike(name.lstrip("_"), [n.lstrip("_") for n in names.attributes])
            if name in names.attributes and other:
                found = next(n for n in sorted(names.attributes) if n.lstrip("_") == other)
                yield Fault("name exchanged", f"self.{found}")
        case ast.Tuple(elts=elements, ctx=ast.Load()) if not in_kernel and len(elements) > 1:
            if any(isinstance(element, ast.Slice) for element in elements):
                return  # outside of brackets, which stay, it is no expression
            for i in range(len(elements)):
                kept = ast.Tuple([e for j, e in enumerate(elements) if j != i], ast.Load())
                yield Fault("part dropped", ast.unparse(kept))
        case _:
            return


def condition_faults(test: ast.expr, *, of_loop: bool) -> Iterator[Fault]:
    """Yield the faults of the condition of an ``if`` or a ``while``."""
    if not isinstance(test, (ast.Compare, ast.UnaryOp)) or of_loop:
        yield Fault("condition negated", f"not {_arm(test)}")
    if not of_loop:
        yield Fault("condition removed", "True")
    yield Fault("branch removed", "False")


def alike(name: str, others: Collection[str]) -> str | None:
    """Return the most similar name of the same kind, or None.

    ``i_``, ``o_``, ``m_`` and capitals are separate kinds; other names are similar if they share a word.

    >>> alike("cu_seqlens_q", ["cu_seqlens_k", "context_lens"]), alike("m_live", ["o_token", "m_token"])
    ('cu_seqlens_k', 'm_token')
    """
    words = set(name.split("_"))
    found = [(len(words & set(o.split("_"))), o) for o in others if o != name and _kind(o) == _kind(name)]
    shared, best = max(found, key=lambda pair: pair[0], default=(0, ""))
    return best if shared else None


def _kind(name: str) -> str:
    if name.isupper():
        return "UPPER"
    return name[0] if name[1:2] == "_" else ""


def _compare(op: ast.cmpop, left: ast.expr, right: ast.expr) -> Iterator[Fault]:
    swapped, moved = _COMPARISONS.get(type(op), ("", ""))
    if swapped:
        yield Fault("comparison swapped", f"{_arm(left)} {swapped} {_arm(right)}")
    if moved and not isinstance(right, ast.Constant):
        sign = {"<=": "<", "<": "<=", ">=": ">", ">": ">="}[swapped]
        yield Fault("bound moved by one", f"{_arm(left)} {sign} {_arm(right)} {moved}")


def base_of(node: ast.expr) -> str:
    """Return the name that a sum begins with: the pointer, if the sum is an address."""
    while isinstance(node, ast.BinOp):
        node = node.left
    return node.id if isinstance(node, ast.Name) else ""


def _binary(node: ast.BinOp, names: Names) -> Iterator[Fault]:
    left, right = _arm(node.left), _arm(node.right)
    if type(node.op) in _OPERATORS:
        yield Fault("operator exchanged", f"{left} {_OPERATORS[type(node.op)]} {right}")
        yield Fault("operand dropped", ast.unparse(node.left))
        if not isinstance(node.op, _KEEPS_LEFT_ONLY) and base_of(node.left) not in names.pointers:
            yield Fault("operand dropped", ast.unparse(node.right))
    if isinstance(node.op, ast.Mult):
        match node.left:
            case ast.Call(func=ast.Attribute(attr="to", value=value), args=[dtype]):
                yield Fault("cast after the product", f"({_arm(value)} * {right}).to({ast.unparse(dtype)})")


def _constant(value: int) -> Iterator[Fault]:
    yield Fault("constant + 1", str(value + 1))
    yield Fault("constant - 1", str(value - 1))


def _call(node: ast.Call) -> Iterator[Fault]:
    match node:
        case ast.Call(func=ast.Attribute(attr="to", value=value)):
            yield Fault("cast dropped", ast.unparse(value))
        case ast.Call(func=ast.Attribute(attr="stride", value=value)):
            arguments = ", ".join(map(ast.unparse, node.args))
            yield Fault("stride taken from the shape", f"{_arm(value)}.contiguous().stride({arguments})")
        case ast.Call(func=ast.Attribute(attr="where"), args=[_, then, other]):
            yield Fault("choice dropped", ast.unparse(then))
            yield Fault("choice dropped", ast.unparse(other))
        case ast.Call(func=ast.Attribute(attr="cumsum"), args=[value, *_]):
            yield Fault("scan dropped", ast.unparse(value))
        case ast.Call(func=ast.Attribute(attr="program_id")):
            yield Fault("only the first program's part", f"{ast.unparse(node)} * 0")
        case ast.Call(func=ast.Name(id="range"), args=[start, stop, step]):
            a, b, s = ast.unparse(start), ast.unparse(stop), ast.unparse(step)
            yield Fault("last tile skipped", f"range({a}, {b} - {_arm(step)}, {s})")
            yield Fault("only the first tile", f"range({a}, {b}, 1 << 30)")
            if a != "0":
                yield Fault("starts at 0", f"range(0, {b}, {s})")
        case ast.Call(func=ast.Subscript(value=kernel, slice=grid)) if _is_launch(node):
            changed = ast.Call(ast.Name(f"{ast.unparse(kernel)}[(1,)]"), node.args, node.keywords)
            if ast.unparse(grid) != "(1,)":
                yield Fault("only the first program launched", ast.unparse(changed))
    called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    plain = node.func.id if isinstance(node.func, ast.Name) else called
    if plain in _EXCHANGED:
        head = f"{ast.unparse(node.func.value)}." if isinstance(node.func, ast.Attribute) else ""
        changed = ast.Call(ast.Name(head + _EXCHANGED[plain]), node.args, node.keywords)
        yield Fault("function exchanged", ast.unparse(changed))
    if called in ACCESSES:
        yield from _access(node)


def _access(node: ast.Call) -> Iterator[Fault]:
    given = {keyword.arg for keyword in node.keywords}
    if "mask" in given:
        kept = [k for k in node.keywords if k.arg not in ("mask", "other")]
        yield Fault("mask dropped", ast.unparse(ast.Call(node.func, node.args, kept)))
    if "other" in given:
        kept = [ast.keyword("other", ast.Name(GARBAGE)) if k.arg == "other" else k for k in node.keywords]
        yield Fault("other dropped", ast.unparse(ast.Call(node.func, node.args, kept)))


def _is_launch(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Subscript) and isinstance(node.func.slice, ast.Tuple)


def _arm(node: ast.expr) -> str:
    """Return the text of an operand."""
    plain = (ast.Name, ast.Constant, ast.Call, ast.Attribute, ast.Subscript)
    return ast.unparse(node) if isinstance(node, plain) else f"({ast.unparse(node)})"
