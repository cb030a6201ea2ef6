"""The tests of kernels that keep something between calls share this."""

from collections.abc import Iterator

import pytest

from cumae.properties.interpreter.hooks import watching
from cumae.properties.running.device import interpreting


@pytest.fixture(params=[None, 1] if interpreting() else [None])
def inside_every_tensor_in_any_order(request: pytest.FixtureRequest) -> Iterator[None]:
    """Programs run in a seeded order too; no lane may lie outside its tensor."""
    if not interpreting():
        yield
        return
    with watching(request.param) as watch:
        yield
    assert watch.outside == []
