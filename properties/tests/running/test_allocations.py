"""Memory that a function allocates holds poison, on the host too."""

import numpy as np

from cumae.properties.running.allocations import FencedAllocations
from cumae.properties.running.bench import POISON


def test_scratch_memory_of_numpy_holds_poison() -> None:
    plain = np.empty, np.empty_like
    with FencedAllocations(POISON):
        made = [np.empty((2, 3), dtype=np.int32), np.empty(2, order="F"), np.empty_like(np.ones((3, 2)).T)]
        objects, nothing = np.empty(1, dtype=object), np.empty(0)
    assert all(set(each.tobytes()) == {POISON} for each in made)
    assert objects[0] is None and nothing.size == 0
    assert (np.empty, np.empty_like) == plain
