"""Each planted bug of a real engine is found from cold, and shrinks to what one would draw on paper."""

from pathlib import Path

import pytest

from cumae.fixtures.bugs import BUGS, Bug
from cumae.properties.conformance import binding_of
from cumae.properties.failure_file import load_failure
from cumae.properties.running.device import prepare
from cumae.properties.search import Budget, search
from cumae.properties.targets import load_function

DEVICE = prepare("auto")


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.target.rpartition(":")[2])
@pytest.mark.parametrize("volume", [0, 100], ids=["drawn", "seeded"])
def test_a_bug_is_found_and_reduced(bug: Bug, volume: int, tmp_path: Path) -> None:
    binding = binding_of(load_function(bug.target), bug.operation)
    verdict = search(binding, DEVICE, Budget(examples=300, seed=5, volume=volume), save_to=tmp_path)
    failure = verdict.failure
    assert failure is not None
    assert len(failure.case.batch.requests) <= 2
    assert failure.case.num_tokens_padded <= 4
    assert failure.file is not None
    assert load_failure(failure.file).case == failure.case
