"""Seeded traces of an engine: the events between its steps, and how often they happen."""

from collections.abc import Callable, Iterator

from cumae.oracle import Case
from cumae.properties.cases.choices import Choices, SeededChoices
from cumae.properties.operations.binding import Binding
from cumae.properties.state.engine import Engine
from cumae.properties.state.setting import Sizes, draw_setting

STEPS = 12
WISHES = (1, 1, 0, 2, 3, 5, 17)
SMALL = Sizes()
Event = Callable[[Engine, int, Choices], None]
EVENTS: tuple[Event, ...] = (
    lambda engine, row, choices: engine.finish(row),
    lambda engine, row, choices: engine.preempt(row),
    lambda engine, row, choices: engine.resume(),
    lambda engine, row, choices: engine.fork(row),
    lambda engine, row, choices: engine.swap(row, choices.integer(0, engine.setting.sizes.num_rows - 1)),
    lambda engine, row, choices: engine.condense(),
    lambda engine, row, choices: engine.fork(row),
)
"""Events of a drawn row. All entries are equally likely, so an event listed twice happens twice as often."""
QUIET = 6
"""Number of events without effect, beside ``EVENTS``."""


def walk(
    binding: Binding, number: int, sizes: Sizes = SMALL, *, buckets: bool | None = None
) -> Iterator[Case]:
    """Yield the steps of an engine without end; the same number yields the same steps."""
    choices = SeededChoices(number)
    setting = draw_setting(choices, binding.domain, binding.features, sizes, buckets=buckets)
    engine = Engine(setting, binding.domain, binding.features)
    wishes: list[int] = []
    while True:
        if not choices.chance(3):  # else no request arrives or changes
            _happen(engine, choices)
        if not choices.chance(40):  # else a steady step: every request continues as before
            wishes = [choices.pick(WISHES) for _ in range(sizes.num_rows)] if not choices.chance(5) else []
        yield engine.step(wishes, rejects=choices.integer(0, 3), hidden=choices.chance(5))


def _happen(engine: Engine, choices: Choices) -> None:
    """Let requests arrive, then run one event or none."""
    rows = engine.setting.sizes.num_rows
    while len(engine.live()) < rows and choices.chance(40):
        engine.admit(choices.integer(1, engine.setting.most_tokens), choices.integer(0, rows))
    kind = choices.integer(0, len(EVENTS) + QUIET - 1)
    row = choices.integer(0, rows - 1)
    if kind < len(EVENTS):
        EVENTS[kind](engine, row, choices)
