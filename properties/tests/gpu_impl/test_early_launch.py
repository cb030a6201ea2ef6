"""A kernel that begins while another one ends waits for it before it does anything."""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from cumae import gpu_impl

MODULES = sorted(Path(gpu_impl.__file__).parent.glob("*.py"))


def kernels_of(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    """Yield the functions that can begin early, but the one that waits for them."""
    for function in tree.body:
        if isinstance(function, ast.FunctionDef) and function.name != "wait_for_kernel_before":
            if any(argument.arg == "BEGINS_EARLY" for argument in function.args.args):
                yield function


def launches_of(tree: ast.Module) -> Iterator[tuple[str, ast.Call]]:
    """Yield the name and the call of each ``kernel[grid](…)``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript):
            yield ast.unparse(node.func.value), node


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.stem)
def test_a_kernel_waits_before_all_else_and_each_launch_may_begin_early(module: Path) -> None:
    tree = ast.parse(module.read_text())
    names = vars(importlib.import_module(f"cumae.gpu_impl.{module.stem}"))
    for kernel in kernels_of(tree):
        first = kernel.body[bool(ast.get_docstring(kernel))]
        assert ast.unparse(first) == "wait_for_kernel_before(BEGINS_EARLY)", kernel.name
    for name, launch in launches_of(tree):
        passed = [ast.unparse(keyword.value) for keyword in launch.keywords if keyword.arg is None]
        assert any(text.startswith("early(") for text in passed), name
        # The interpreter leaves out arguments that a kernel does not have; compiled, the launch fails.
        assert "BEGINS_EARLY" in names[name].arg_names, name


def test_there_are_kernels_and_launches_to_look_at() -> None:
    trees = [ast.parse(module.read_text()) for module in MODULES]
    assert sum(len(list(kernels_of(tree))) for tree in trees) > 30
    assert sum(len(list(launches_of(tree))) for tree in trees) > 30
