"""Shared by all tests: a source tree, few searches for garbage, and Triton's names, found once."""

import gc
import inspect
from collections.abc import Iterator
from typing import Any

import pytest
from triton.runtime import interpreter

from cumae.properties.interpreter.hooks import watching
from cumae.properties.running.device import interpreting
from cumae.properties.tests.helpers.released_tree import tree, wheel

__all__ = ["tree", "wheel"]

CORE = interpreter.tl.core
BUILTINS = {
    owner: [name for name, member in inspect.getmembers(owner) if CORE.is_builtin(member)]
    for owner in (interpreter.tl, CORE, CORE.tensor, interpreter.tl.math, CORE.tensor_descriptor_base)
}
"""The functions of Triton's language by their owner, before the interpreter patches them."""


def patch_builtins(owner: Any, builder: Any, scope: Any) -> None:
    """Do what the interpreter does at each launch and call of a kernel, without looking through all names."""
    for name in BUILTINS[owner]:
        member = getattr(owner, name)
        if CORE.is_builtin(member):
            interpreter._patch_attr(owner, name, member, builder, scope)


interpreter._patch_builtin = patch_builtins


@pytest.fixture
def watched() -> Iterator[None]:
    """Watch the launches of a test in the interpreter. An access outside of a tensor fails the test."""
    if not interpreting():
        yield
        return
    with watching() as watch:
        yield
    assert (watch.outside, watch.asserted) == ([], [])


def pytest_collection_finish(session: pytest.Session) -> None:
    """Leave what was imported and collected out of garbage collections, and collect less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Let the end of the process free everything, or libraries report leaks."""
    gc.unfreeze()
