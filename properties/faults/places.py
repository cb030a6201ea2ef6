"""Places for faults: the statements and expressions of a function, except validation of its input."""

import ast
from typing import NamedTuple

from cumae.properties.faults.operators import ACCESSES, Fault, Names, base_of, condition_faults, faults_of
from cumae.properties.faults.scope import Part, bound_in, is_refusal

_NOT_VARIED = ("arange", "program_id", "num_programs")
_NOT_VARIED_BY_NAME = ("other", "sem", "strict")


class Place(NamedTuple):
    """A node, the first and last line of its statement, and a fault for it."""

    node: ast.expr | ast.stmt
    first: int
    last: int
    fault: Fault


def places_in(function: ast.FunctionDef, part: Part) -> list[Place]:
    """Return every place of a function, and every fault for it."""
    attributes = frozenset(
        node.attr
        for node in ast.walk(part.node)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    )
    walk = _Walk(part, Names(bound_in(function), _pointers(function), attributes))
    for statement in function.body:
        walk.statement(statement)
    return walk.found


class _Walk:
    """Collects the places of a function's statements."""

    def __init__(self, part: Part, names: Names) -> None:
        self.found: list[Place] = []
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
                if child.arg not in _NOT_VARIED_BY_NAME:
                    self._expression(child.value)
            elif isinstance(child, ast.comprehension):
                for inner in (child.iter, *child.ifs):
                    self._expression(inner)
            elif isinstance(child, ast.expr) and not _is_grid(node, child):
                self._expression(child)

    def _add(self, node: ast.expr | ast.stmt, fault: Fault) -> None:
        self.found.append(Place(node, *self._lines, fault))


def _is_unpacked(node: ast.stmt) -> bool:
    """Return whether a statement unpacks tuples, so that no part of them can be dropped."""
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return any(isinstance(target, ast.Tuple) for target in targets)


def _is_grid(node: ast.expr, child: ast.expr) -> bool:
    """Return whether an expression is a constant index, such as the 0 of ``x[0]``, which gets no fault."""
    return isinstance(node, ast.Subscript) and child is node.slice and isinstance(child, ast.Constant)


def _is_deletable(node: ast.stmt, names: Names) -> bool:
    """Return whether a function still runs without a statement, because its names were bound before."""
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
