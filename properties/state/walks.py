"""Seeded traces of an engine: the events between its steps, and how often they happen."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from math import ceil

from cumae.oracle import Case
from cumae.properties.cases.choices import Choices, SeededChoices, mixed
from cumae.properties.cases.features import feature_of
from cumae.properties.cases.requests import withhold
from cumae.properties.operations.binding import Binding
from cumae.properties.state.engine import Engine
from cumae.properties.state.load import Load
from cumae.properties.state.plans import Plan, plan_of
from cumae.properties.state.setting import draw_setting

STEPS = 12
"""Steps of a trace that is cut short."""
MOST_PADDING = 3
REJECTED = ((0,), (1,), (2, 0, 1), (3, 1, 0, 2, 3))
"""Drafts that are rejected after a step, at most: as many of each row, or as many as rows have in turns."""
MOST_LEFT = 5
SEEDED = ("draft_seed", "selection_seed")
"""Seeds of drafts and of selected keys, which differ from step to step."""
SEEDS = (0, 1, 2, 3)
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


def trace_of(binding: Binding, number: int) -> Iterator[Case]:
    """Yield the steps of a trace: as many as the walk of this number has."""
    yield from islice(walk(binding, number), _plan_of(binding, number).num_steps)


def walk(
    binding: Binding, number: int, plan: Plan | None = None, *, buckets: bool | None = None
) -> Iterator[Case]:
    """Yield the steps of an engine without end; the same number yields the same steps.

    ``plan``: the kind of walk, by default the one that the number has.
    """
    choices = SeededChoices(number)
    plan = plan or _plan_of(binding, number)
    setting = draw_setting(
        choices,
        binding.domain,
        binding.features,
        plan.sizes,
        worlds=plan.worlds,
        topk=plan.topk,
        buckets=buckets,
    )
    engine = Engine(setting, binding.domain, binding.features)
    load = Load(choices, plan, setting.sizes.num_rows)
    budget = setting.sizes.budget
    most = 1.0 if plan.grows else budget
    gives_back = mixed(number, 9) % 2 == 1
    changing = _changing_seeds(binding)
    hide = partial(withhold, choices, tokens_per_block=setting.tokens_per_block)
    while True:
        if not choices.chance(3):  # else no request arrives or changes
            _happen(engine, choices, plan)
        load.move_on(is_growing=most < budget)
        bursts = most >= budget and any(load.wishes) and choices.chance(plan.bursts)
        for is_large in (False, True, False) if bursts else (False,):
            case = engine.step(
                [budget] * len(load.wishes) if is_large else load.wishes,
                most=ceil(most),
                rejects=REJECTED[choices.integer(0, 3)],
                gives_back=gives_back,
                hidden=choices.chance(5),
                padding=choices.integer(0, MOST_PADDING) if choices.chance(30) else 0,
                withhold=hide if choices.chance(10) else None,
            )
            seeds = {name: choices.pick(values) for name, values in changing.items()}
            yield replace(case, options=case.options.having(**seeds)) if seeds else case
        most = min(budget, 1.5 * most)


def _changing_seeds(binding: Binding) -> dict[str, tuple[int, ...]]:
    """Return the seeds that change from step to step, and their values."""
    found = {
        name: tuple(binding.domain.among(name, SEEDS))
        for name in SEEDED
        if feature_of(name) in binding.features
    }
    return {name: values for name, values in found.items() if len(values) > 1}


def _plan_of(binding: Binding, number: int) -> Plan:
    return plan_of(number, binding.features, keeps_state=binding.keeps_state)


def _happen(engine: Engine, choices: Choices, plan: Plan) -> None:
    """Let requests arrive, then run one event or none; or let all but a few end."""
    setting = engine.setting
    rows = setting.sizes.num_rows
    if plan.leaves and len(engine.live()) > MOST_LEFT and choices.chance(plan.leaves):
        engine.finish_all_but(choices.integer(0, MOST_LEFT))
        return
    while len(engine.live()) < rows and choices.chance(plan.arrivals):
        cached = _cached_len(choices, engine) if choices.chance(plan.cached) else 0
        engine.admit(choices.integer(1, setting.most_tokens), choices.integer(0, rows), cached)
    kind = choices.integer(0, len(EVENTS) + QUIET - 1)
    row = choices.integer(0, rows - 1)
    if kind < len(EVENTS):
        EVENTS[kind](engine, row, choices)


def _cached_len(choices: Choices, engine: Engine) -> int:
    """Return a context about as long as the selection, half of it or three quarters, or any."""
    topk = engine.setting.options.selection.topk
    about = choices.pick((topk, topk // 2, 3 * topk // 4, choices.integer(0, engine.setting.most_tokens)))
    return about + choices.integer(-2, 1)
