"""The tokens that the requests of an engine ask for, step by step."""

from cumae.properties.cases.choices import Choices
from cumae.properties.state.plans import Plan

GROWING = 3
"""Tokens that a row of a growing engine asks for."""


class Load:
    """The tokens that each row asks for: often as many as before, and in some steps none.

    ``wishes``: the tokens that each row asks for in this step.
    """

    def __init__(self, choices: Choices, plan: Plan, num_rows: int) -> None:
        self._choices = choices
        self._plan = plan
        self._num_rows = num_rows
        self._asked: list[int] = []
        self._busy = range(num_rows)
        self._left = 0
        self.wishes: list[int] = []

    def move_on(self, *, is_growing: bool) -> None:
        """Draw the wishes of the next step; in a growing engine, every row asks for tokens."""
        choices, plan = self._choices, self._plan
        if is_growing:
            self.wishes = [GROWING] * self._num_rows
            return
        self._left -= 1
        if self._left < 0:
            self._busy, self._left = range(self._num_rows), 0
            if choices.chance(plan.idles):
                self._busy, self._left = self._some_rows(), choices.integer(1, plan.longest)
        if not self._asked or not choices.chance(plan.steady):
            idle = choices.chance(5)
            self._asked = [0 if idle else choices.pick(plan.wishes) for _ in range(self._num_rows)]
        self.wishes = [wish if row in self._busy else 0 for row, wish in enumerate(self._asked)]

    def _some_rows(self) -> range:
        """Return the rows that go on while others idle, often none."""
        if self._choices.chance(30):
            return range(0)
        first = self._choices.integer(0, self._num_rows - 1)
        return range(first, self._choices.integer(first + 1, self._num_rows))
