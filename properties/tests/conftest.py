"""What all tests share: modules and tests, which live to the end, are not searched for garbage."""

import gc

import pytest


def pytest_collection_finish(session: pytest.Session) -> None:
    """Leave what was imported and collected out of garbage collections, and collect less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Let the end of the process free everything, or libraries report leaks."""
    gc.unfreeze()
