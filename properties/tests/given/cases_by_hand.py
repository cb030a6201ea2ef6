"""Cases made by hand, and what is said of those that cannot be."""

from collections.abc import Callable

import pytest

from cumae.oracle import Batch, Case, Request


def refusal(build: Callable[[], object]) -> str:
    """Return what the ``ValueError`` says."""
    with pytest.raises(ValueError) as caught:
        build()
    return str(caught.value)


SMALL = Case(Batch((Request(3, 2, (7, 4, 9), "decode"), Request(0, 1, (5,))), 2))
