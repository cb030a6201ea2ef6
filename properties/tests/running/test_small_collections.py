"""What is there before a search is left out of looks for garbage, and is back afterwards."""

import gc
from collections.abc import Iterator

import pytest

from cumae.properties.running.device import small_collections


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
    with small_collections():
        assert gc.get_freeze_count() > 0
        assert gc.get_threshold() == (700, 10, 10)
        with small_collections():
            pass
        assert gc.get_freeze_count() > 0
    with pytest.raises(RuntimeError, match="mine"), small_collections():
        raise RuntimeError("mine")
    assert gc.get_freeze_count() == 0
    assert gc.get_threshold() == (700, 10, 10)


def test_somebody_elses_settings_stay() -> None:
    gc.freeze()
    with small_collections():
        assert gc.get_threshold() == (700, 10, 10)
    assert gc.get_freeze_count() > 0
