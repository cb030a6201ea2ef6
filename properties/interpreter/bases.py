"""The tensor that a pointer was computed from, by the statement that uses it."""

import ast
import linecache
from collections.abc import Iterator, Sequence
from functools import cache
from types import FrameType
from typing import Any

import numpy as np

from cumae.properties.interpreter.region import Region

_CALLS = {"load": ("load",), "store": ("store",)}
"""By the kind of an access, how the names of its functions begin; others are atomics."""


def base_of(frame: FrameType | None, kind: str, spans: Sequence[Region]) -> Region | None:
    """Return the tensor from which a running statement computes the pointers of an access.

    None if the statement does not tell: if it has several accesses of the kind, or adds several pointers.
    """
    if frame is None:
        return None
    starts = _CALLS.get(kind, ("atomic",))
    found = {_of_names(names, frame, spans) for names in _pointers(frame, starts)}
    return found.pop() if len(found) == 1 else None


def _of_names(names: Sequence[str], frame: FrameType, spans: Sequence[Region]) -> Region | None:
    """Return the only tensor that these variables point into, or were computed from."""
    tree, first = _tree(frame.f_code.co_filename), frame.f_code.co_firstlineno
    known, seen, found = list(names), set[str](), set[Region]()
    while known:
        name = known.pop()
        if name in seen:
            continue
        seen.add(name)
        address = _address(frame.f_locals.get(name))
        if address is None:
            continue
        span = next((span for span in spans if address in span), None)
        span = span or next((span for span in spans if span.name == name), None)
        if span is not None:
            found.add(span)
        elif tree is not None:
            known += _assigned(tree, first, name)
    return found.pop() if len(found) == 1 else None


def _address(value: Any) -> int | None:
    """Return the first address of a variable that is a pointer, or pointers."""
    kind = getattr(value, "dtype", None)
    if kind is None or not hasattr(value, "handle") or not getattr(kind, "is_ptr", lambda: False)():
        return None
    return int(np.asarray(value.handle.data).reshape(-1)[0])


def _pointers(frame: FrameType, starts: Sequence[str]) -> Iterator[list[str]]:
    """Yield the variables in the pointers of each access on the line that runs."""
    tree = _tree(frame.f_code.co_filename)
    for node in ast.walk(tree) if tree is not None else ():
        if not isinstance(node, ast.Call) or node.lineno != frame.f_lineno:
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        given = [*node.args, *(word.value for word in node.keywords if word.arg == "pointer")]
        if given and called.startswith(tuple(starts)):
            yield list(_names(given[0]))


def _assigned(tree: ast.Module, first: int, name: str) -> list[str]:
    """Return the variables from which a function's variable is computed; ``first``: the function's line."""
    inside = (
        node
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef) and _begins(function) <= first <= function.lineno
        for node in ast.walk(function)
    )
    found: list[str] = []
    for node in inside:
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == name for target in targets):
                found += _names(node.value)
    return found


def _begins(function: ast.FunctionDef) -> int:
    return min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])


def _names(node: ast.AST) -> Iterator[str]:
    """Yield the variables of an expression, but for those of the loads in it."""
    if isinstance(node, ast.Name):
        yield node.id
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "load":
        return
    for child in ast.iter_child_nodes(node):
        yield from _names(child)


@cache
def _tree(file: str) -> ast.Module | None:
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return None
