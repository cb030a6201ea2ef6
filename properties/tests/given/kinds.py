"""Cases of the kinds of steps that a tour shows, by name."""

from cumae.oracle import Case
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.features import NAMES
from cumae.properties.steps.kinds import KINDS
from cumae.properties.steps.ladder import Ladder

LADDER = Ladder(Domain(), NAMES)
"""The ladder of every promise and every option."""


def smallest(name: str, ladder: Ladder = LADDER) -> Case:
    """Return the case of a kind in its first size."""
    build, sizes = KINDS[name]
    case = build(ladder, sizes[0])
    assert case is not None
    return case
