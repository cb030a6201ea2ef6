"""Loops that count in tensors, as in compiled code; the interpreter counts in Python's integers.

Those have no ``to``, and their products with constants do not wrap. A constant to which a kernel adds becomes
a tensor too.
"""

import ast
from collections.abc import Iterator
from typing import Any

import numpy as np

NAME = "_counted_in_tensors"
"""The function that rewritten code calls; every kernel sees the names of the interpreter's module."""


class Rewriter:
    """The interpreter's rewriter of kernels, with loops over ``range`` and ``tl.range`` rewritten first."""

    def __init__(self, original: Any) -> None:
        self._original = original

    def visit(self, tree: ast.AST) -> Any:
        """Return the rewritten code."""
        return self._original.visit(_Loops().visit(tree))


class _Loops(ast.NodeTransformer):
    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.target, ast.Name):
            return node
        before = ast.copy_location(ast.Name(id=node.target.id, ctx=ast.Load()), node.target)
        after = ast.copy_location(ast.BinOp(left=before, op=node.op, right=node.value), node)
        return ast.copy_location(ast.Assign(targets=[node.target], value=after), node)

    def visit_For(self, node: ast.For) -> ast.For:
        self.generic_visit(node)
        if isinstance(node.iter, ast.Call) and _name_of(node.iter.func) == "range":
            node.iter.func = ast.copy_location(ast.Name(id=NAME, ctx=ast.Load()), node.iter.func)
        return node


def _name_of(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def in_tensors(arg1: Any, arg2: Any = None, step: Any = 1, **_: Any) -> Iterator[Any]:
    """Yield the numbers of ``range`` as scalar tensors, in the type that start, stop and step promote to."""
    import triton.language as tl
    from triton.runtime.interpreter import TensorHandle, _get_np_dtype, interpreter_semantic

    bounds = (0, arg1) if arg2 is None else (arg1, arg2)
    start, stop, by = (interpreter_semantic.to_tensor(bound) for bound in (*bounds, step))
    promoted = interpreter_semantic.integer_promote_impl
    kind = promoted(promoted(start.dtype, stop.dtype), by.dtype)
    held = _get_np_dtype(kind)
    for number in range(*(bound.handle.data.item() for bound in (start, stop, by))):
        yield tl.tensor(TensorHandle(np.array([number], dtype=held), kind), kind)
