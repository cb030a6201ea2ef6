"""Garbage is searched for seldom while a search runs, and as before afterwards."""

import gc
from collections.abc import Iterator

import pytest

from cumae.properties.running.device import few_collections


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    """Undo what the tests' own settings are, and set them again."""
    was_frozen, threshold = gc.get_freeze_count() > 0, gc.get_threshold()
    gc.unfreeze()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*threshold)
    if was_frozen:
        gc.freeze()


def test_what_is_there_is_left_out_and_comes_back_also_after_an_error() -> None:
    with few_collections():
        assert gc.get_freeze_count() > 0
        assert gc.get_threshold()[0] > 700
        with few_collections():
            pass
        assert gc.get_freeze_count() > 0
    with pytest.raises(RuntimeError, match="mine"), few_collections():
        raise RuntimeError("mine")
    assert gc.get_freeze_count() == 0
    assert gc.get_threshold() == (700, 10, 10)


def test_somebody_elses_settings_stay() -> None:
    gc.freeze()
    with few_collections():
        assert gc.get_threshold() == (700, 10, 10)
    assert gc.get_freeze_count() > 0
