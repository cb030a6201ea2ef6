"""Traces of an engine, walked from a seed: what happens between the steps, and how often."""

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
"""Events to a drawn row, each as likely as the others: one that stands twice happens twice as often."""
QUIET = 6
"""How many events have no effect, beside ``EVENTS``."""


def walk(
    binding: Binding, number: int, sizes: Sizes = SMALL, *, buckets: bool | None = None
) -> Iterator[Case]:
    """Yield the steps of an engine without end, the same ones for the same number."""
    choices = SeededChoices(number)
    setting = draw_setting(choices, binding.domain, binding.features, sizes, buckets=buckets)
    engine = Engine(setting, binding.domain, binding.features)
    wishes: list[int] = []
    while True:
        if not choices.chance(3):  # else an idle step, with nobody changed
            _happen(engine, choices)
        if not choices.chance(40):  # else a steady step: everybody goes on as in the one before
            wishes = [choices.pick(WISHES) for _ in range(sizes.num_rows)] if not choices.chance(5) else []
        yield engine.step(wishes, rejects=choices.integer(0, 3), hidden=choices.chance(5))


def _happen(engine: Engine, choices: Choices) -> None:
    """Let requests arrive, then one event happen, or none."""
    rows = engine.setting.sizes.num_rows
    while len(engine.live()) < rows and choices.chance(40):
        engine.admit(choices.integer(1, engine.setting.most_tokens), choices.integer(0, rows))
    kind = choices.integer(0, len(EVENTS) + QUIET - 1)
    row = choices.integer(0, rows - 1)
    if kind < len(EVENTS):
        EVENTS[kind](engine, row, choices)
