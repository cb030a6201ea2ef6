"""The tokens that the requests of an engine ask for, step by step."""

from cumae.properties.cases.choices import Choices
from cumae.properties.state.plans import Plan


class Load:
    """What each row asks for: often as much as before, and for some steps nothing.

    ``wishes``: the tokens that each row asks for in this step.
    """

    def __init__(self, choices: Choices, plan: Plan, num_rows: int) -> None:
        self._choices = choices
        self._plan = plan
        self._num_rows = num_rows
        self._asked = [0] * num_rows
        self._busy = range(num_rows)
        self._left = 0
        self.wishes = self._asked

    def move_on(self, *, is_growing: bool) -> None:
        """Draw the wishes of the next step; a growing engine has no idle rows."""
        choices, plan = self._choices, self._plan
        self._left -= 1
        if self._left < 0:
            self._busy, self._left = range(self._num_rows), 0
            if not is_growing and choices.chance(plan.idles):
                first = choices.integer(0, self._num_rows)
                self._busy = range(first, choices.integer(first, self._num_rows))
                self._left = choices.integer(1, plan.longest)
        if not choices.chance(plan.steady):
            idle = not is_growing and choices.chance(5)
            self._asked = [0 if idle else choices.pick(plan.wishes) for _ in range(self._num_rows)]
        self.wishes = [wish if row in self._busy else 0 for row, wish in enumerate(self._asked)]
