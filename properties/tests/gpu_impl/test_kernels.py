"""The kernels shipped here, through the same door as everybody else's."""

import inspect
import re
from dataclasses import replace

import pytest

from cumae import gpu_impl
from cumae.oracle import Inputs
from cumae.properties.dialects import DIALECTS, Ints
from cumae.properties.dialects.dialect import Input
from cumae.properties.dialects.held import ints
from cumae.properties.operations import OPERATIONS
from cumae.properties.operations.targets import load_function
from cumae.properties.pytest_plugin.conforms_to import conforms_to
from cumae.properties.running.device import prepare
from cumae.properties.search.direct import check

DEVICE = prepare("auto")
# The same cases in every run, beside the fixtures: `ci/fuzz` is what tries others.
KERNELS = {
    kernel.partition(":")[2]: conforms_to(operation.name, examples=12)(load_function(kernel))
    for operation in OPERATIONS.values()
    for kernel in operation.kernels
}
TESTS = {f"test_{re.sub(r'(?<=[a-z])(?=[A-Z])', '_', name).lower()}": test for name, test in KERNELS.items()}
globals().update(TESTS)


def test_every_kernel_of_the_table_is_tested_here() -> None:
    assert {"test_metadata_cache", "test_write_cache"} <= set(TESTS)
    assert len(TESTS) == sum(len(operation.kernels) for operation in OPERATIONS.values())


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_a_launcher_has_no_defaults_but_host_lengths(name: str) -> None:
    parameters = inspect.signature(getattr(gpu_impl, name)).parameters.values()
    defaults = {p.name for p in parameters if p.default is not inspect.Parameter.empty}
    assert defaults <= {"host_seq_lens"}


def padded_with_0(inputs: Inputs) -> Ints:
    return ints([max(request, 0) for request in inputs["token_to_request"]], "int32", "minus_one")


@pytest.mark.parametrize("name", ["position_ids", "causal_windows", "sparse_schedule"])
def test_a_map_padded_with_0_is_right_too(name: str) -> None:
    cumae = DIALECTS["cumae"]
    dialect = replace(cumae, inputs={**cumae.inputs, "token_to_request": Input(padded_with_0)})
    function = getattr(gpu_impl, f"write_{name}")
    assert check(function, name, dialect=dialect, checks=["agrees"], examples=20, save_to=None)
