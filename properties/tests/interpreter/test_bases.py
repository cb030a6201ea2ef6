"""A stray access is told under the tensor that its pointer came from, or under none."""

from typing import Any

import pytest
import torch

from cumae.properties.interpreter.hooks import watching
from cumae.properties.running.device import prepare
from cumae.properties.tests.functions import strayed

pytestmark = pytest.mark.skipif(prepare("auto") == "cuda", reason="accesses are watched in the interpreter")
FAR = 1_500_000_000
KERNELS = (
    strayed.directly,
    strayed.through_a_variable,
    strayed.in_a_function,
    strayed.by_another_tensors_value,
)


def told(kernel: Any, far: int) -> str:
    memory = torch.zeros(64, dtype=torch.int32)
    with watching() as watch:
        kernel[(1,)](memory[40:44], memory[8:10], far)
    (access,) = watch.outside
    return str(access).partition(", at ")[0]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("far", [26, FAR, -FAR])
def test_an_access_is_told_under_the_tensor_of_its_pointer_not_the_nearest(kernel: Any, far: int) -> None:
    kind = "load" if kernel is strayed.in_a_function else "store"
    assert told(kernel, far) == f"{kind} of element {far} of `second`, which has 2"


def test_a_far_access_of_an_unknown_tensor_is_told_under_none() -> None:
    assert told(strayed.by_a_difference, FAR) == "store far from every tensor"
    assert told(strayed.by_a_difference, 5) == "store of element 5 of `first`, which has 4"
