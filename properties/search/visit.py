"""Sizes that a tour visited, and the work that larger ones are expected to be."""

from dataclasses import dataclass, field
from math import inf

from cumae.properties.running.volume import Volume

LINEAR = 16
"""A tensor of the function's own that has more than so many times the elements of each argument is expected
to grow with the square of a size."""
MOST_ELEMENTS, MOST_SECONDS = 2**28, 30.0
"""A size is left out if the function is expected to make a larger tensor, or to take longer by its own."""


@dataclass(frozen=True, slots=True)
class Visit:
    """A size of some kind that was visited: its work, and the function's own tensors and seconds.

    Without the last two: one that was too much work already before the function ran.
    """

    size: int
    work: float
    volume: Volume = field(default_factory=Volume)
    seconds: float = 0.0

    def expected(self, size: int) -> float:
        """Return the work that a size is expected to be; infinite if it takes the function too much."""
        growth = size / self.size
        squared = growth > 1 and self.volume.made > LINEAR * self.volume.given
        elements = self.volume.made * (growth**2 if squared else growth)
        if elements > MOST_ELEMENTS or self.seconds * growth**2 > MOST_SECONDS:
            return inf
        return self.work * growth
