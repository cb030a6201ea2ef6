"""Mutants: a target with one fault in its source, swapped in for the original within a context."""

import ast
import inspect
import linecache
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from cumae.properties.faults.places import Place, places_in
from cumae.properties.faults.scope import Cached, Part, belongs, scope_of

_PLAIN = (ast.Name, ast.Constant, ast.Call, ast.Attribute, ast.Subscript)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault in one definition of a module: the characters ``start`` to ``stop`` become ``text``.

    ``first``, ``last``: the lines of the statement around it; ``before``, ``after``: the lines that differ.
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
        """The change as a diff."""
        old = "\n".join(f"- {line}" for line in self.before.splitlines())
        new = "\n".join(f"+ {line}" for line in self.after.splitlines())
        return f"{old}\n{new}"


def mutants_of(function: Callable[..., Any]) -> list[Mutant]:
    """Return every mutant of a function: of its source, and of the definitions it uses from its package."""
    found: dict[tuple[str, str], Mutant] = {}
    for part in scope_of(function):
        for mutant in _of_part(part):
            found.setdefault((part.module, mutant.source), mutant)
    return list(found.values())


@contextmanager
def swapped(mutant: Mutant) -> Iterator[None]:
    """Replace the original by the mutant wherever its package names it, and restore it afterwards.

    Exceptions raised while the mutated definition is created are passed on.
    """
    module = sys.modules[mutant.module]
    source, file = mutant.source, f"mutant/{mutant.module.replace('.', '/')}.py"
    lines = source.splitlines(keepends=True)
    tree = ast.parse(source)
    tree.body = [node for node in tree.body if _is_wanted(node, mutant.name)]
    original = vars(module)[mutant.name]
    package = mutant.module.rpartition(".")[0] or mutant.module
    named = [
        (vars(other), name, value)
        for other in list(sys.modules.values())
        if belongs(getattr(other, "__name__", ""), package)
        for name, value in list(vars(other).items())
    ]
    places = [(names, name) for names, name, value in named if value is original]
    caches = [value for _, _, value in named if isinstance(value, Cached)]
    linecache.cache[file] = (len(source), None, lines, file)
    try:
        exec(compile(tree, file, "exec"), vars(module))
        made = vars(module)[mutant.name]
        for names, name in places:
            names[name] = made
        for kept in caches:  # answers of the original
            kept.cache_clear()
        yield
    finally:
        for names, name in places:
            names[name] = original
        for kept in caches:
            kept.cache_clear()
        linecache.cache.pop(file, None)


def _is_wanted(node: ast.stmt, name: str) -> bool:
    if isinstance(node, ast.ImportFrom) and node.module == "__future__":
        return True
    return isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name


def _of_part(part: Part) -> Iterator[Mutant]:
    source = inspect.getsource(sys.modules[part.module])
    functions = [part.node] if isinstance(part.node, ast.FunctionDef) else part.node.body
    for node in functions:
        if isinstance(node, ast.FunctionDef):
            title = node.name if node is part.node else f"{part.name}.{node.name}"
            for place in places_in(node, part):
                yield mutant_at(part, title, source, place)


def mutant_at(part: Part, title: str, source: str, place: Place) -> Mutant:
    """Return the mutant of a part of a module's source at a place; ``title``: the function in words."""
    node, first, last, fault = place
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
        number = negative or isinstance(new.value, ast.Constant)
        asked = source[stop : stop + 1] == "." and number  # 1.to is not Python
        if asked or not (negative or isinstance(new.value, (*_PLAIN, ast.Tuple))):
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
