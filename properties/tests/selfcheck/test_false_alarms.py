"""No check accuses a correct function; `ci/false_alarms.py` counts an error as an accusation, too."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from cumae.fixtures.correct import CORRECT
from cumae.oracle import Batch, Case, Layout, Request
from cumae.properties.checks import CHECKS, Trial
from cumae.properties.dialects import DIALECTS
from cumae.properties.operations import OPERATIONS
from cumae.properties.operations.binding import binding_of
from cumae.properties.operations.targets import load_function
from cumae.properties.running.device import prepare
from cumae.properties.selfcheck.false_positives import Innocent, added_up, innocents, try_innocent

DEVICE = prepare("auto")
FIXTURES = [innocent for innocent in innocents() if ".correct." in innocent.target]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Tensors this small are slower on several."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_every_operation_of_every_dialect_has_a_correct_implementation() -> None:
    pairs = {(operation, d.name) for d in DIALECTS.values() for operation in d.outputs}
    pairs |= {(operation, d.name) for d in DIALECTS.values() if d.own_outputs for operation in OPERATIONS}
    assert {(correct.operation, correct.dialect) for correct in CORRECT} == pairs


@pytest.mark.parametrize("innocent", FIXTURES, ids=lambda innocent: innocent.target.rpartition("correct.")[2])
def test_a_correct_implementation_passes_every_check(innocent: Innocent) -> None:
    tried = try_innocent(innocent, cases=20, seed=7, volume=80)
    assert tried.accusations == []
    assert tried.cases >= 20
    assert tried.comparisons > tried.cases


def test_half_a_step_that_has_no_block_has_no_context() -> None:
    binding = binding_of(load_function("cumae.gpu_impl:write_prefix_interleave"), "prefix_interleave")
    case = Case(Batch((Request(0, 1, (0,)),), 1), Layout(context_slack=1))
    assert CHECKS["keeps_facts"](Trial(binding, case, DEVICE)) is None


def test_an_accusation_is_reported_and_counted() -> None:
    found = [i for i in FIXTURES if i.target.endswith("sglang:positions_of_decode")]
    guilty = replace(found[0], promises={"captured": False})
    tried = try_innocent(guilty, cases=20)
    assert len(tried.accusations) == 1
    assert "`positions` has shape" in tried.accusations[0]
    (summed,) = added_up([tried, try_innocent(found[0], cases=5, seed=1, checks=["agrees"])])
    assert summed["cases"] == tried.cases
    assert summed["accusations"] == tried.accusations
