"""Mutants: a target with one fault in its source, in place of the original for as long as one asks."""

import ast
import inspect
import linecache
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from cumae.properties.faults.operators import ACCESSES, Fault, Names, base_of, condition_faults, faults_of
from cumae.properties.faults.scope import Part, belongs, bound_in, is_refusal, scope_of

_NOT_VARIED = ("arange", "program_id", "num_programs")
_PLAIN = (ast.Name, ast.Constant, ast.Call, ast.Attribute, ast.Subscript)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault in one definition of a module: the characters ``start`` to ``stop`` become ``text``.

    ``first``, ``last``: the lines of the statement it stands in; ``before``, ``after``: lines that differ.
    """

    module: str
    name: str
    function: str
    in_kernel: bool
    operator: str
    line: int
    first: int
    last: int
    start: int
    stop: int
    text: str
    before: str
    after: str

    @property
    def source(self) -> str:
        """The module's source with the fault in it."""
        source = inspect.getsource(sys.modules[self.module])
        return source[: self.start] + self.text + source[self.stop :]

    @property
    def diff(self) -> str:
        """What changed, as a diff shows it."""
        old = "\n".join(f"- {line}" for line in self.before.splitlines())
        new = "\n".join(f"+ {line}" for line in self.after.splitlines())
        return f"{old}\n{new}"


def mutants_of(function: Callable[..., Any]) -> list[Mutant]:
    """Return every mutant of a function: of its own source, and of what it uses from its package."""
    found: dict[tuple[str, str], Mutant] = {}
    for part in scope_of(function):
        for mutant in _of_part(part):
            found.setdefault((part.module, mutant.source), mutant)
    return list(found.values())


@contextmanager
def swapped(mutant: Mutant) -> Iterator[None]:
    """Put the mutant wherever its package names the original, and take it away again.

    What the mutated definition raises when it is made passes through.
    """
    module = sys.modules[mutant.module]
    source, file = mutant.source, f"mutant/{mutant.module.replace('.', '/')}.py"
    lines = source.splitlines(keepends=True)
    tree = ast.parse(source)
    tree.body = [node for node in tree.body if _is_wanted(node, mutant.name)]
    original = vars(module)[mutant.name]
    package = mutant.module.rpartition(".")[0] or mutant.module
    places = [
        (vars(other), name)
        for other in list(sys.modules.values())
        if belongs(getattr(other, "__name__", ""), package)
        for name, value in list(vars(other).items())
        if value is original
    ]
    linecache.cache[file] = (len(source), None, lines, file)
    try:
        exec(compile(tree, file, "exec"), vars(module))
        made = vars(module)[mutant.name]
        for names, name in places:
            names[name] = made
        yield
    finally:
        for names, name in places:
            names[name] = original
        linecache.cache.pop(file, None)


def _is_wanted(node: ast.stmt, name: str) -> bool:
    if isinstance(node, ast.ImportFrom) and node.module == "__future__":
        return True
    return isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name


def _of_part(part: Part) -> Iterator[Mutant]:
    module = sys.modules[part.module]
    source = inspect.getsource(module)
    attributes = frozenset(
        node.attr
        for node in ast.walk(part.node)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    )
    functions = [part.node] if isinstance(part.node, ast.FunctionDef) else part.node.body
    for node in functions:
        if not isinstance(node, ast.FunctionDef):
            continue
        names = Names(bound_in(node), _pointers(node), attributes)
        title = node.name if node is part.node else f"{part.name}.{node.name}"
        walk = _Walk(part, names)
        for statement in node.body:
            walk.statement(statement)
        for place, (first, last), fault in walk.found:
            yield _mutant(part, title, source, place, first, last, fault)


class _Walk:
    """Collects the faults of a function's statements: the node, the lines of its statement, the fault."""

    def __init__(self, part: Part, names: Names) -> None:
        self.found: list[tuple[ast.expr | ast.stmt, tuple[int, int], Fault]] = []
        self._part = part
        self._names = names
        self._lines = (0, 0)

    def statement(self, node: ast.stmt) -> None:
        """Collect the faults of a statement and of those inside it."""
        if is_refusal(node, self._part.globals) or isinstance(node, (ast.Import, ast.ImportFrom)):
            return
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return
        heads = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
        inner = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)]
        last = max((h.end_lineno or h.lineno for h in heads), default=node.lineno)
        self._lines = (node.lineno, last if inner else node.end_lineno or node.lineno)
        if isinstance(node, (ast.If, ast.While)):
            for fault in condition_faults(node.test, of_loop=isinstance(node, ast.While)):
                self._add(node.test, fault)
        if _is_deletable(node, self._names):
            self._add(node, Fault("statement deleted", "pass"))
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Tuple) and _is_unpacked(node):
                for element in child.elts:
                    self._expression(element)
            elif isinstance(child, ast.expr) and child is not getattr(node, "annotation", None):
                self._expression(child)
            elif isinstance(child, ast.withitem):
                self._expression(child.context_expr)
        for statement in inner:
            self.statement(statement)

    def _expression(self, node: ast.expr) -> None:
        if isinstance(node, ast.JoinedStr):
            return
        for fault in faults_of(node, self._names, in_kernel=self._part.is_kernel):
            self._add(node, fault)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in _NOT_VARIED:
                return
        if isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant):
            return
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.keyword):
                if child.arg not in ("other", "sem"):
                    self._expression(child.value)
            elif isinstance(child, ast.comprehension):
                for inner in (child.iter, *child.ifs):
                    self._expression(inner)
            elif isinstance(child, ast.expr) and not _is_grid(node, child):
                self._expression(child)

    def _add(self, node: ast.expr | ast.stmt, fault: Fault) -> None:
        self.found.append((node, self._lines, fault))


def _is_unpacked(node: ast.stmt) -> bool:
    """Whether a statement takes tuples apart, which therefore keep all their parts."""
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return any(isinstance(target, ast.Tuple) for target in targets)


def _is_grid(node: ast.expr, child: ast.expr) -> bool:
    """Whether a tuple is an index, of which no part can be dropped; what it holds is looked at."""
    return isinstance(node, ast.Subscript) and child is node.slice and isinstance(child, ast.Constant)


def _is_deletable(node: ast.stmt, names: Names) -> bool:
    """Whether a function still runs without a statement: what it binds was bound before."""
    match node:
        case ast.AugAssign() | ast.Expr(value=ast.Call()) | ast.Continue() | ast.Break():
            return True
        case ast.Return(value=None):
            return True
        case ast.Assign(targets=[ast.Name(id=name)]):
            return names.bound.get(name, node.lineno) < node.lineno
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            return True
    return False


def _pointers(function: ast.FunctionDef) -> frozenset[str]:
    """Return the names whose memory a kernel loads or stores."""
    return frozenset(
        base_of(node.args[0])
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and node.args
        if isinstance(node.func, ast.Attribute) and node.func.attr in ACCESSES
    )


def _mutant(
    part: Part, title: str, source: str, node: ast.expr | ast.stmt, first: int, last: int, fault: Fault
) -> Mutant:
    lines = source.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or 0
    start = starts[node.lineno - 1] + _characters(lines[node.lineno - 1], node.col_offset)
    stop = starts[end_line - 1] + _characters(lines[end_line - 1], end_column)
    text = fault.text
    new = ast.parse(text, mode="exec").body[0]
    inside = source[start - 1 : start] == "(" and source[stop : stop + 1] == ")"
    if isinstance(node, ast.expr) and isinstance(new, ast.Expr) and not inside:
        negative = isinstance(new.value, ast.UnaryOp) and isinstance(new.value.operand, ast.Constant)
        if not (negative or isinstance(new.value, (*_PLAIN, ast.Tuple))):
            text = f"({text})"
    changed = source[:start] + text + source[stop:]
    top, bottom = starts[node.lineno - 1], starts[end_line]
    return Mutant(
        part.module,
        part.name,
        title,
        part.is_kernel,
        fault.operator,
        node.lineno,
        first,
        last,
        start,
        stop,
        text,
        source[top:bottom].rstrip("\n"),
        changed[top : bottom + len(changed) - len(source)].rstrip("\n"),
    )


def _characters(line: str, column: int) -> int:
    """Return a column counted in characters: syntax trees count bytes."""
    return len(line.encode()[:column].decode())
