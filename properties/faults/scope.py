"""The definitions that make up a target: its own, and those of its package that it uses."""

import ast
import functools
import inspect
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from cumae.properties.taking.module import Module

Definition = ast.FunctionDef | ast.ClassDef


@dataclass(frozen=True, slots=True)
class Part:
    """One definition at the top of a module; ``is_kernel``: decorated, as with ``@triton.jit``."""

    module: str
    name: str
    is_kernel: bool
    node: Definition

    @property
    def globals(self) -> dict[str, Any]:
        """The names of its module."""
        return vars(sys.modules[self.module])


Cached = functools._lru_cache_wrapper
"""A function that keeps its answers."""


def plain(value: Any) -> Any:
    """Return the function that a decorator such as ``triton.jit`` or a cache wraps, or the value as it is."""
    while not isinstance(value, (types.FunctionType, type)) and hasattr(value, "fn"):
        value = value.fn
    return inspect.unwrap(value) if isinstance(value, (types.FunctionType, Cached)) else value


def scope_of(function: Callable[..., Any]) -> list[Part]:
    """Return the definitions that a function uses, itself first.

    Leaves out validators of input, which are no part of an operation. Raises ``ValueError`` for a
    function whose source cannot be read, or that is not defined at the top of its module.
    """
    first = plain(function)
    package = first.__module__.rpartition(".")[0] or first.__module__
    part = _part(function)
    if part is None:
        name = getattr(first, "__qualname__", first)
        raise ValueError(f"target = {name!r}, must be a function at the top of a module with a source")
    found = {(part.module, part.name): part}
    todo = [part]
    while todo:
        for value in _used(todo.pop(), package):
            other = _part(value)
            if other is not None and (other.module, other.name) not in found:
                found[other.module, other.name] = other
                todo.append(other)
    return list(found.values())


def taken_by(function: Callable[..., Any]) -> list[str]:
    """Return the names under which a function uses what ``cumae.take`` took: these are not mutated."""
    found = set[str]()
    for part in scope_of(function):
        names = {node.id for node in ast.walk(part.node) if isinstance(node, ast.Name)}
        values = {name: plain(part.globals.get(name)) for name in names}
        theirs = {name: getattr(value, "__module__", None) or "" for name, value in values.items()}
        found |= {name for name, module in theirs.items() if isinstance(sys.modules.get(module), Module)}
    return sorted(found)


def belongs(module: str, package: str) -> bool:
    """Return whether a module is the package or lies in it."""
    return module == package or module.startswith(f"{package}.")


def is_refusal(statement: ast.stmt, names: dict[str, Any]) -> bool:
    """Return whether a statement only raises an error for bad input."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="static_assert" | "device_assert"))):
            return True
        case ast.Raise() | ast.Assert():
            return True
        case ast.If(body=[*_, ast.Raise()], orelse=[]):
            return True
        case ast.For(body=body):
            return all(isinstance(inner, ast.If) or is_refusal(inner, names) for inner in body)
        case ast.Expr(value=ast.Call(func=ast.Name(id=name))):
            called = names.get(name)
            return isinstance(called, types.FunctionType) and not _launches(called, set())
    return False


def _launches(function: types.FunctionType, seen: set[types.FunctionType]) -> bool:
    """Return whether a Python function launches a kernel, itself or through others."""
    seen.add(function)
    part = _part(function)
    for node in ast.walk(part.node) if part else ():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript):
            return True
        if isinstance(node, ast.Name) and part is not None:
            value = part.globals.get(node.id)
            if isinstance(value, types.FunctionType) and value not in seen and _launches(value, seen):
                return True
    return False


def bound_in(function: ast.FunctionDef) -> dict[str, int]:
    """Return the names that a function binds, each with its first line; arguments have line 0."""
    arguments = function.args
    every = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    bound = {argument.arg: 0 for argument in every if argument.arg != "self"}
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound[node.id] = min(bound.get(node.id, node.lineno), node.lineno)
    return bound


def _used(part: Part, package: str) -> Iterator[Any]:
    """Yield the values of the package that a definition uses through global names."""
    functions = [part.node] if isinstance(part.node, ast.FunctionDef) else part.node.body
    for function in functions:
        if isinstance(function, ast.FunctionDef):
            yield from _used_in(function, part, package)


def _used_in(function: ast.FunctionDef, part: Part, package: str) -> Iterator[Any]:
    own = bound_in(function)
    inside = [node for statement in function.body for node in _without_refusals(statement, part.globals)]
    for node in inside:
        value = None
        if isinstance(node, ast.Name) and node.id not in own:
            value = part.globals.get(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner = part.globals.get(node.value.id)
            value = getattr(owner, node.attr, None) if isinstance(owner, types.ModuleType) else None
        module = getattr(plain(value), "__module__", None)
        if isinstance(module, str) and (belongs(module, package) or module == part.module):
            yield value


def _without_refusals(node: ast.AST, names: dict[str, Any]) -> Iterator[ast.AST]:
    if isinstance(node, ast.stmt) and is_refusal(node, names):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _without_refusals(child, names)


def _part(value: Any) -> Part | None:
    """Return the definition of a value, None unless it stands at the top of a module.

    None as well for what keeps its answers outside of oracles: launchers keep so what a device can do.
    """
    if isinstance(value, Cached) and not belongs(value.__module__, "cumae.oracle"):
        return None
    inner = plain(value)
    if not isinstance(inner, (types.FunctionType, type)) or inner.__module__ not in sys.modules:
        return None
    module = sys.modules[inner.__module__]
    try:
        tree = ast.parse(inspect.getsource(module))
    except (OSError, TypeError):
        return None
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == inner.__qualname__:
            is_kernel = not isinstance(vars(module).get(node.name), (types.FunctionType, Cached, type))
            return Part(module.__name__, node.name, is_kernel, node)
    return None
