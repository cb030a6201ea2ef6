"""`and`, `or`, `not`, `min` and `max` by element, as in compiled code; the interpreter has Python's."""

import ast
from collections.abc import Callable
from typing import Any

NAME = "_logic_by_element"
"""The function that rewritten code calls; every kernel sees the names of the interpreter's module."""


class Rewriter:
    """The interpreter's rewriter of kernels, with these operators rewritten first."""

    def __init__(self, original: ast.NodeTransformer) -> None:
        self._original = original

    def visit(self, tree: ast.AST) -> Any:
        """Return the rewritten code."""
        return self._original.visit(_Words().visit(tree))


class _Words(ast.NodeTransformer):
    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        word = "and" if isinstance(node.op, ast.And) else "or"
        found, *others = node.values
        for other in others:
            found = ast.copy_location(_call(word, found, _later(other)), node)
        return found

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        if not isinstance(node.op, ast.Not):
            return node
        return ast.copy_location(_call("not", node.operand), node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name not in ("min", "max") or len(node.args) != 2 or node.keywords:
            return node
        return ast.copy_location(_call(name, node.args[0], _later(node.args[1])), node)


def by_element(word: str, first: Any, second: Callable[[], Any] | None = None) -> Any:
    """Return ``first and second()``, ``first or second()``, ``not first``, the lesser or the greater of both.

    Blocks combine by element; a scalar ``first`` of a condition decides whether ``second`` is evaluated.
    """
    if second is None:
        return first == 0 if _is_tensor(first) else not first
    if word in ("min", "max"):
        return _bound(word, first, second())
    if _is_tensor(first) and first.shape:
        other = _truth(second())
        return _truth(first) & other if word == "and" else _truth(first) | other
    if bool(first) == (word == "or"):
        return _truth(first)
    return _truth(second())


def _bound(word: str, first: Any, second: Any) -> Any:
    import triton.language as tl

    if not (_is_tensor(first) or _is_tensor(second)):
        return min(first, second) if word == "min" else max(first, second)
    return tl.minimum(first, second) if word == "min" else tl.maximum(first, second)


def _truth(value: Any) -> Any:
    return value != 0 if _is_tensor(value) and not value.dtype.is_int1() else value


def _is_tensor(value: Any) -> bool:
    import triton.language as tl

    return isinstance(value, tl.tensor)


def _call(word: str, *values: ast.expr) -> ast.expr:
    return ast.Call(func=ast.Name(id=NAME, ctx=ast.Load()), args=[ast.Constant(word), *values], keywords=[])


def _later(value: ast.expr) -> ast.expr:
    none = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    return ast.copy_location(ast.Lambda(args=none, body=value), value)
