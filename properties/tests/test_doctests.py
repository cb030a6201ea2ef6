"""The worked examples in docstrings, under the package's own name."""

import doctest
import importlib
import pkgutil

import pytest

import cumae.oracle

MODULES = [f"cumae.oracle.{module.name}" for module in pkgutil.iter_modules(cumae.oracle.__path__)]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_hold(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_every_oracle_has_an_example() -> None:
    for name in (
        "sequence_layout",
        "position_ids",
        "slot_mapping",
        "causal_windows",
        "prefix_interleave",
        "sparse_schedule",
        "metadata_cache",
        "persistent_buffers",
        "topk_to_slots",
        "chunked_context",
        "latent_layout",
    ):
        assert doctest.testmod(importlib.import_module(f"cumae.oracle.{name}")).attempted >= 1
