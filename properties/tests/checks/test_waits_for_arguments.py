"""Behind a kernel that writes the arguments late, one that may begin early must wait for them."""

from itertools import islice
from typing import Any

import pytest

from cumae.properties.cases.seeded import seeded_cases
from cumae.properties.checks import CHECKS, Trial
from cumae.properties.operations import OPERATIONS
from cumae.properties.operations.binding import binding_of
from cumae.properties.operations.targets import load_function
from cumae.properties.running.device import can_begin_early, prepare
from cumae.properties.tests.functions.wrong_kernels import ALWAYS, LAST, LATE, NEVER, waiting

if prepare("auto") != "cuda" or not can_begin_early():
    pytest.skip("kernels begin early on NVIDIA's GPUs from Hopper on", allow_module_level=True)

NAME = "waits_for_arguments"


def seen(function: Any, operation: str) -> list[tuple[str, str]]:
    """Return the finding and the note of each of a few cases."""
    binding = binding_of(function, operation)
    trials = [
        Trial(binding, case, "cuda") for case in islice(seeded_cases(5, binding.domain, binding.features), 20)
    ]
    found = [CHECKS[NAME](trial) for trial in trials]
    return [("" if f is None else f.message, t.note) for f, t in zip(found, trials, strict=True)]


@pytest.mark.parametrize("options", [{}, {"launch_pdl": True}])
def test_a_kernel_that_waits_first_is_right(options: dict[str, Any]) -> None:
    assert set(seen(waiting(ALWAYS, **options), "position_ids")) == {("", "")}


def test_loads_before_it_waits_are_noted() -> None:
    found = seen(waiting(LATE, launch_pdl=True), "position_ids")
    assert {message for message, _ in found} == {""}
    assert any(note.startswith("it loads arguments before") for _, note in found)


@pytest.mark.parametrize("waits", [LAST, NEVER])
def test_a_store_that_does_not_wait_is_found(waits: int) -> None:
    found = seen(waiting(waits, launch_pdl=True), "position_ids")
    assert any(message.startswith("launched with launch_pdl, a kernel changes") for message, _ in found)


def test_a_launch_that_does_not_begin_early_need_not_wait() -> None:
    assert set(seen(waiting(NEVER), "position_ids")) == {("", "")}


@pytest.mark.parametrize(
    ("name", "kernel"),
    [(one.name, kernel) for one in OPERATIONS.values() for kernel in one.kernels],
)
def test_shipped_kernels_wait(name: str, kernel: str) -> None:
    assert set(seen(load_function(kernel), name)) == {("", "")}
