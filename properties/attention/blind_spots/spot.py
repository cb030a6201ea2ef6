"""A blind spot, and the tests of entries that files of blind spots share."""

from collections.abc import Callable
from typing import NamedTuple

from cumae.oracle import Inputs
from cumae.properties.attention.answers import Lists

Test = Callable[[Inputs, Lists, Lists, int], bool]
"""Takes the inputs, the right answer, the wrong one, and the index of an entry in which they differ."""


class BlindSpot(NamedTuple):
    """Entries of outputs that attention does not depend on. ``where`` and ``reason`` are for readers.

    ``holds``: returns whether the difference at an index is invisible, from the inputs, the right answer
    and the wrong one.
    """

    operations: tuple[str, ...]
    outputs: tuple[str, ...]
    where: str
    reason: str
    holds: Test


def padding_row(inputs: Inputs, right: Lists, wrong: Lists, index: int) -> bool:
    """Return whether the entry belongs to a padding row."""
    return index >= int(inputs["num_tokens"])


def computing(inputs: Inputs) -> set[int]:
    """Return the requests in scope that compute something."""
    everybody = inputs["key_scope"] == "all"
    requests = enumerate(inputs.case.batch.requests)
    return {b for b, r in requests if r.query_len and (everybody or r.phase == "prefill")}
