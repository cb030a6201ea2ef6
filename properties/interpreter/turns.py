"""The turns in which the programs of each launch of a call run."""

from collections.abc import Callable, Sequence
from typing import Any

from cumae.properties.interpreter.launch import Enter, Launch, Leave, Switch
from cumae.properties.interpreter.schedules import Schedule


class Turns:
    """Runs the programs of each launch side by side, in the turns of a schedule.

    ``lines``: the lines before which the turn may pass, None for each access. ``switches``: the turns
    that were taken from a program in its midst.
    """

    def __init__(self, schedule: Schedule, lines: frozenset[str] | None = None) -> None:
        self.schedule = schedule
        self.lines = lines
        self.switches: list[Switch] = []
        self._launch: Launch | None = None

    def launch(self, programs: Sequence[Callable[[], None]], leave: Leave, enter: Enter) -> Launch:
        """Return a launch that takes these turns; see ``Launch``."""
        self._launch = Launch(self.schedule, self.lines, self.switches, programs, leave, enter)
        return self._launch

    def run(self, programs: Sequence[Callable[[], None]], leave: Leave, enter: Enter) -> None:
        """Run the programs of a launch to their ends; raise the first error of one."""
        try:
            self.launch(programs, leave, enter).run()
        finally:
            self._launch = None

    def before(self) -> None:
        """Let another program run, if it is its turn. Called before each access."""
        if self._launch is not None:
            self._launch.before()

    def after(self, addresses: Any, *, changed: bool) -> None:
        """Take note of an access. ``changed``: whether it has changed memory."""
        if self._launch is not None:
            self._launch.after(addresses, changed=changed)
