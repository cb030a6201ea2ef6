"""The kernels shipped here, through the same door as everybody else's."""

import inspect
from dataclasses import replace

import pytest

from cumae import gpu_impl
from cumae.oracle import Inputs, OperationName
from cumae.properties.dialects import DIALECTS, Ints
from cumae.properties.dialects.dialect import Input
from cumae.properties.dialects.held import ints
from cumae.properties.operations import OPERATIONS
from cumae.properties.operations.targets import load_function
from cumae.properties.running.device import prepare
from cumae.properties.search.direct import check

DEVICE = prepare("auto")
KERNELS = {
    kernel.partition(":")[2]: (load_function(kernel), operation)
    for operation in OPERATIONS.values()
    for kernel in operation.kernels
}


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_a_kernel_passes_every_check(name: str) -> None:
    """Under the same cases in every run, beside the fixtures: `ci/fuzz` is what tries others."""
    verdict = check(*KERNELS[name], examples=12, save_to=None)
    assert verdict, verdict
    assert verdict.comparisons > verdict.cases >= 24


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_a_launcher_has_no_defaults_but_host_lengths(name: str) -> None:
    parameters = inspect.signature(getattr(gpu_impl, name)).parameters.values()
    defaults = {p.name for p in parameters if p.default is not inspect.Parameter.empty}
    assert defaults <= {"host_seq_lens"}


def padded_with_0(inputs: Inputs) -> Ints:
    return ints([max(request, 0) for request in inputs["token_to_request"]], "int32", "minus_one")


@pytest.mark.parametrize("name", ["position_ids", "causal_windows", "sparse_schedule"])
def test_a_map_padded_with_0_is_right_too(name: OperationName) -> None:
    cumae = DIALECTS["cumae"]
    dialect = replace(cumae, inputs={**cumae.inputs, "token_to_request": Input(padded_with_0)})
    function = getattr(gpu_impl, f"write_{name}")
    assert check(function, name, dialect=dialect, checks=["agrees"], examples=20, save_to=None)
