"""The worked examples in docstrings, under the package's own name."""

import doctest
import importlib
import pkgutil

import pytest
import torch

import cumae.gpu_impl
import cumae.oracle
from cumae.properties.operations import OPERATIONS
from cumae.properties.running.device import prepare

DEVICE = prepare("auto")
MODULES = [
    module.name
    for package in (cumae.oracle, cumae.gpu_impl)
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    if not module.ispkg
]
WITH_KERNEL = [name for name, operation in OPERATIONS.items() if operation.kernels] + ["latent_layout"]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_hold(name: str) -> None:
    with torch.device(DEVICE):
        assert doctest.testmod(importlib.import_module(name)).failed == 0


@pytest.mark.parametrize("operation", WITH_KERNEL)
def test_every_oracle_and_every_kernel_has_an_example(operation: str) -> None:
    for name in (f"cumae.oracle.{operation}", f"cumae.gpu_impl.{operation}"):
        found = doctest.DocTestFinder().find(importlib.import_module(name))
        assert any(example.examples for example in found), f"{name} has no example"
