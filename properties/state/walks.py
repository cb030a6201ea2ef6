"""Traces of an engine: a seeded walk for volume, and the machine that Hypothesis drives and shrinks."""

from collections.abc import Callable, Iterator, Sequence
from typing import cast

from hypothesis import HealthCheck, Phase, Verbosity, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from cumae.oracle import Case
from cumae.properties.cases.choices import Choices, HypothesisChoices, SeededChoices
from cumae.properties.operations.binding import Binding
from cumae.properties.state.engine import Engine, Setting, Sizes, draw_setting

STEPS = 12
WISHES = (1, 1, 0, 2, 3, 5, 17)
Stepper = Callable[[Case], None]
SMALL = Sizes()


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
    """Let requests come, go, fork, wait or change places between two steps."""
    rows = engine.setting.sizes.num_rows
    while len(engine.live()) < rows and choices.chance(40):
        engine.admit(choices.integer(1, engine.most_tokens), choices.integer(0, rows))
    kind = choices.integer(0, 12)
    which = choices.integer(0, rows - 1)
    if kind == 0:
        engine.finish(which)
    elif kind == 1:
        engine.preempt(which)
    elif kind == 2:
        engine.resume()
    elif kind in (3, 6):
        engine.fork(which)
    elif kind == 4:
        engine.swap(which, choices.integer(0, rows - 1))
    elif kind == 5:
        engine.condense()


def machine(
    binding: Binding, begin: Callable[[], Stepper], sizes: Sizes = SMALL, *, buckets: bool | None = None
) -> type[RuleBasedStateMachine]:
    """Return a state machine whose rules are what happens in an engine.

    ``begin`` starts a system under test and returns what runs a step on it; that raises where the step
    is wrong. It is begun again for each sequence of rules.
    """
    which = st.integers(0, sizes.num_rows - 1)

    class Serving(RuleBasedStateMachine):
        """Requests are admitted, forked, preempted, finished and reordered between the steps."""

        engine: Engine
        run_step: Stepper
        wishes: Sequence[int] = ()

        @initialize(data=st.data())
        def start(self, data: st.DataObject) -> None:
            choices = HypothesisChoices(cast(st.DrawFn, data.draw))
            setting: Setting = draw_setting(choices, binding.domain, binding.features, sizes, buckets=buckets)
            self.engine = Engine(setting, binding.domain, binding.features)
            self.run_step = begin()

        @rule(prompt_len=st.integers(1, 9), hit=st.integers(0, sizes.num_rows))
        def admit(self, prompt_len: int, hit: int) -> None:
            self.engine.admit(prompt_len, hit)

        @rule(blocks=st.integers(1, sizes.blocks_each), off=st.integers(-1, 1))
        def admit_to_a_block_edge(self, blocks: int, off: int) -> None:
            self.engine.admit(max(1, blocks * self.engine.tokens_per_block + off))

        @rule(which=which)
        def fork(self, which: int) -> None:
            self.engine.fork(which)

        @rule(which=which)
        def finish(self, which: int) -> None:
            self.engine.finish(which)

        @rule(which=which)
        def preempt(self, which: int) -> None:
            self.engine.preempt(which)

        @rule()
        def resume(self) -> None:
            self.engine.resume()

        @rule(first=which, second=which)
        def swap(self, first: int, second: int) -> None:
            self.engine.swap(first, second)

        @rule()
        def condense(self) -> None:
            self.engine.condense()

        @rule(
            wishes=st.lists(st.integers(0, 5), max_size=sizes.num_rows),
            rejects=st.integers(0, 3),
            hidden=st.integers(0, 9),
        )
        def step(self, wishes: list[int], rejects: int, hidden: int) -> None:
            self.wishes = wishes
            self.run_step(self.engine.step(wishes, rejects=rejects, hidden=hidden == 9))

        @rule(wish=st.integers(1, 3))
        def step_all(self, wish: int) -> None:
            self.wishes = [wish] * sizes.num_rows
            self.run_step(self.engine.step(self.wishes))

        @rule()
        def step_again(self) -> None:
            self.run_step(self.engine.step(self.wishes))

        @rule(first=st.integers(1, 5))
        def admit_and_step(self, first: int) -> None:
            self.engine.admit(2 * first)
            self.run_step(self.engine.step([first] * sizes.num_rows))

        @rule()
        def prefill_all(self) -> None:
            self.run_step(self.engine.step([sizes.budget] * sizes.num_rows))

    return Serving


def drive(machine_class: type[RuleBasedStateMachine], examples: int, number: int) -> None:
    """Let Hypothesis draw sequences of rules, and shrink one that raises; its settings are its own."""
    run_state_machine_as_test(
        seed(number)(machine_class),
        settings=settings(
            max_examples=examples,
            stateful_step_count=STEPS,
            deadline=None,
            derandomize=False,
            database=None,
            phases=(Phase.generate, Phase.shrink),
            verbosity=Verbosity.quiet,
            print_blob=False,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )
