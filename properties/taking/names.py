"""Names that a statement of a module binds, reads at once, and reads when its functions run."""

import ast
import builtins
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_Import = ast.Import | ast.ImportFrom


@dataclass(slots=True, eq=False)
class Statement:
    """One statement at the top of a module, and the names that it reads.

    ``at_once``: while it runs; ``noted``: in annotations, which nothing depends on; ``later``:
    when its functions run. ``handed``: names passed to a call at once; ``is_decorated``: whether its
    functions or its class are decorated. The call or the decorator may read a function's names without
    running it, as a compiler does. ``error``: why it failed.
    """

    node: ast.stmt
    at_once: frozenset[str]
    noted: frozenset[str]
    later: frozenset[str]
    handed: frozenset[str]
    is_decorated: bool
    state: Literal["", "running", "done", "failed"] = ""
    error: str = ""


def statement_of(node: ast.stmt) -> Statement:
    """Return a statement with the names that it reads."""
    reader = _Reader()
    reader.visit(node)
    own = {node.name} if isinstance(node, (*_FUNCTIONS, ast.ClassDef)) else set()
    at_once = frozenset(reader.at_once - own)
    noted = frozenset(reader.noted - at_once - own)
    later = frozenset(reader.later - at_once - own)
    return Statement(node, at_once, noted, later, frozenset(reader.handed), _is_decorated(node))


def split_imports(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield statements, with an import of several names split into one import each."""
    for node in body:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield ast.copy_location(ast.ImportFrom(node.module, [alias], node.level), node)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield ast.copy_location(ast.Import([alias]), node)
        else:
            yield node


def bound_by(node: ast.stmt) -> set[str]:
    """Return the names that a statement binds, or changes through an attribute, an item or a method."""
    if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
        return {node.name}
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {alias_name(alias) for alias in node.names}
    found: set[str] = set()
    for child in (node, *_outside_functions(node)):
        if isinstance(child, (ast.Import, ast.ImportFrom)):
            found |= {alias_name(alias) for alias in child.names}
        elif isinstance(child, (*_FUNCTIONS, ast.ClassDef)):
            found.add(child.name)
        elif isinstance(child, ast.Name) and isinstance(child.ctx, (ast.Store, ast.Del)):
            found.add(child.id)
        elif isinstance(child, (ast.Attribute, ast.Subscript)) and isinstance(child.ctx, ast.Store):
            found |= _root(child)
        elif isinstance(child, ast.Expr) and isinstance(child.value, ast.Call):
            called = child.value.func
            found |= _root(called) if isinstance(called, ast.Attribute) else set()
    return found


def imports_in(node: ast.stmt) -> list[_Import]:
    """Return the imports of a statement and of its branches, but not of its functions."""
    every = (node, *_outside_functions(node))
    return [child for child in every if isinstance(child, (ast.Import, ast.ImportFrom))]


def alias_name(alias: ast.alias) -> str:
    """Return the name that an import binds."""
    return alias.asname or alias.name.partition(".")[0]


def only(kind: ast.ClassDef, method: str) -> ast.ClassDef | None:
    """Return a class with one method and the members that it reaches through its first argument or the class.

    Removes bases and decorators. Returns None if the class has no such method.
    """
    members: dict[str, list[ast.stmt]] = {}
    for node in kind.body:
        for name in bound_by(node):
            members.setdefault(name, []).append(node)
    if method not in members:
        return None
    kept, wanted = set(), [method]
    while wanted:
        name = wanted.pop()
        if name in kept or name not in members:
            continue
        kept.add(name)
        for node in members[name]:
            wanted += [child.attr for child in ast.walk(node) if isinstance(child, ast.Attribute)]
            wanted += [child.id for child in ast.walk(node) if isinstance(child, ast.Name)]
    body = [node for node in kind.body if bound_by(node) & kept]
    return ast.copy_location(ast.ClassDef(kind.name, [], [], body, []), kind)


def _is_decorated(node: ast.stmt) -> bool:
    inside = () if isinstance(node, _FUNCTIONS) else _outside_functions(node)
    for child in (node, *inside):
        for decorator in getattr(child, "decorator_list", ()):
            if not isinstance(decorator, ast.Name) or not hasattr(builtins, decorator.id):
                return True
    return False


def _root(node: ast.expr) -> set[str]:
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return {node.id} if isinstance(node, ast.Name) else set()


def _outside_functions(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, (*_FUNCTIONS, ast.ClassDef, ast.Lambda)):
            yield from _outside_functions(child)


class _Reader(ast.NodeVisitor):
    """Collects the names that a statement reads, by the time of reading."""

    def __init__(self) -> None:
        self.at_once: set[str] = set()
        self.noted: set[str] = set()
        self.later: set[str] = set()
        self.handed: set[str] = set()
        self._into = self.at_once

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._into.add(node.id)

    def visit_Call(self, node: ast.Call) -> None:
        if self._into is self.at_once:
            self.handed |= {value.id for value in node.args if isinstance(value, ast.Name)}
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        taken = node.args
        defaults = [value for value in taken.kw_defaults if value is not None]
        self._all((*node.decorator_list, *taken.defaults, *defaults), self._into)
        every = (*taken.posonlyargs, *taken.args, *taken.kwonlyargs, taken.vararg, taken.kwarg)
        notes = [argument.annotation for argument in every if argument is not None]
        self._all((*notes, node.returns), self.noted)
        self._all(node.body, self.later)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._all((node.target, node.value), self._into)
        self._all([node.annotation], self.noted if self._into is self.at_once else self.later)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._all([node.body], self.later)

    def _all(self, parts: Iterable[ast.AST | None], into: set[str]) -> None:
        before, self._into = self._into, into
        for part in parts:
            if part is not None:
                self.visit(part)
        self._into = before
