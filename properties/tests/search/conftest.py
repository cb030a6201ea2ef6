"""Processes shared by tests of isolated searches: one takes seconds to start."""

from collections.abc import Iterator

import pytest

from cumae.properties.running.device import prepare
from cumae.properties.search.isolated import searchers
from cumae.properties.search.processes import Processes


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    """Yield processes that search one job after the other."""
    with searchers(prepare("auto")) as started:
        yield started
