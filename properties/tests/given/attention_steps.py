"""Steps on which planted faults are shown to the judge, and how a fault answers them."""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice
from math import prod
from typing import Any

from cumae.oracle import Batch, Case, Inputs, Layout, Options, Request, latent_layout
from cumae.properties.attention import Answer, answer_of, judged
from cumae.properties.attention.answers import NO_PART, asked, cache_shape, right_answers
from cumae.properties.attention.blind_spots import BlindSpot
from cumae.properties.attention.reasons import reasons
from cumae.properties.attention.routes import ROUTES, WRITES
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.features import NAMES
from cumae.properties.cases.seeded import seeded_cases
from cumae.properties.faults.mutants import Mutant, swapped
from cumae.properties.faults.outcome import Clock, OutOfTime
from cumae.properties.operations import OPERATIONS
from cumae.properties.tests.given.traces import a_token_ago, one_engine, step_of

DOMAIN = Domain(
    block_sizes=(1, 2, 3, 4, 5, 7),
    max_context_len=24,
    max_query_len=9,
    max_requests=6,
    selects_fewer=(False,),  # a row attends to as many keys as its schedule has
    selection_order=("mixed",),  # rising rows of a request begin alike: one may stand for the other
)
# Attention is not defined over keys without a block or dropped for lack of room; no path reads the others.
DRAWN = NAMES - {
    "missing_blocks",
    "key_slack",
    *("router", "scaling_factor", "renormalize"),
    *("absolute_chunks", "chunk_size", "max_drafts", "min_window_columns", "page_slack", "ring_capacity"),
    "shared_workspace",
}
ORACLES: dict[str, Callable[..., Any]] = {
    **{name: op.oracle for name, op in OPERATIONS.items() if name not in {"any_schedule", *NO_PART}},
    "latent_layout": latent_layout,
}
FIRST = 12
"""Steps that are asked about before all others: they show most faults."""
Step = tuple[Case | None, Case]


def is_attended(case: Case) -> bool:
    """Whether each token of the case is written somewhere."""
    return -1 not in (case.layout.row_index or ())


@cache
def fixed_steps() -> tuple[Step, ...]:
    """Return hand-made steps, and drawn ones behind none, behind themselves a token ago or another."""
    steps: list[Step] = [*_confused_by_a_key(), *_of_several_tokens()]
    drawn = (case for case in seeded_cases(1, DOMAIN, DRAWN) if is_attended(case))
    before = next(drawn)
    for number, case in zip(range(60), drawn, strict=False):
        earlier = (a_token_ago(case), before)[number % 2]
        steps.append((None, case) if number % 3 == 0 else one_engine(earlier, case))
        before = case
    two = (Request(2, 1, (4,), "decode"), Request(3, 2, (2, 5)))
    one = (Request(3, 1, (4,), "decode"),)
    longer, shorter = (Case(Batch(requests, 4), options=Options.of(topk=2)) for requests in (two, one))
    shorter = replace(shorter, layout=Layout(num_padding_tokens=1, num_spare_tokens=1))
    nobody = Case(Batch((Request(0, 0, (3,)),), 4), Layout(num_padding_tokens=1))
    return (*steps, (None, nobody), one_engine(longer, shorter))


@cache
def steps_with(features: frozenset[str]) -> tuple[Step, ...]:
    """Return drawn steps in which these features alone vary."""
    return tuple(
        (None, case) for case in islice(seeded_cases(2, DOMAIN, features & DRAWN), 80) if is_attended(case)
    )


def _confused_by_a_key() -> Iterator[Step]:
    """Yield the steps that one key held in vllm#42982, and a step whose lengths the host does not know."""
    for topk, one, other in (
        (8, [(0, 8)], [(8, 8)]),
        (8, [(4, 1), (3, 4)], [(1, 4), (6, 1)]),
        (2, [(0, 2)], [(1, 2)]),
    ):
        options = Options.of(topk=topk)
        yield one_engine(Case(step_of(*one), options=options), Case(step_of(*other), options=options))
    known = Case(step_of((4, 1), (3, 1)), options=Options.of(topk=2))
    yield known, replace(known, layout=Layout(host_lens=False))


def _of_several_tokens() -> Iterator[Step]:
    """Yield speculative decodes among prefills, idle requests and padding, cached keys over many chunks."""
    requests = (
        Request(0, 0),
        Request(13, 4, (9, 2, 7, 5, 4), "decode"),
        Request(8, 0, (1, 3)),
        Request(17, 3, (9, 2, 7, 11, 12)),
        Request(0, 1, (6,)),
        Request(0, 0),
    )
    layout = Layout(num_padding_tokens=3, num_padding_requests=2, garbage="plausible")
    batch = Batch(requests, 4)
    for topk, split_size in ((21, 4), (5, 2)):
        options = Options.of(topk=topk, split_size=split_size, num_workers=3)
        yield None, Case(batch, layout, options)
    yield None, Case(batch, layout, Options.of(window=6, chunk_blocks=2, key_scope="prefill"))


class Copies(Inputs):
    """Inputs whose lists a fault may spoil."""

    def __init__(self, inputs: Inputs) -> None:
        super().__init__(inputs.case, inputs.previous)
        self._right = inputs

    def __getitem__(self, name: str) -> Any:
        value = self._right[name]
        return [[*v] if isinstance(v, list) else v for v in value] if isinstance(value, list) else value


def _asked_once() -> dict[str, Answer]:
    """Return right answers of one step that are asked of each oracle once a rank.

    Cache writes are no such: they follow from slots, which a fault may have changed.
    """

    def once(answer: Answer) -> Answer:
        known: dict[int, Any] = {}

        def remembered(inputs: Inputs) -> Any:
            rank = inputs.case.options.parallel.rank
            if rank not in known:
                known[rank] = answer(inputs)
            return known[rank]

        return remembered

    return {name: once(answer) for name, answer in right_answers().items() if name != "cache_write"}


class Asked:
    """The steps in which attention is reached through an operation, with its right answers."""

    def __init__(self, operation: str, steps: Sequence[Step]) -> None:
        if operation == "latent_layout":  # its oracle looks at every element
            steps = [(previous, case) for previous, case in steps if 0 < prod(cache_shape(case)[0]) <= 600]
        ways = [route for route in ROUTES if operation in (*WRITES, *route.operations)]
        self.operation = operation
        self.steps = [s for s in steps if any(route.fits(s[1]) for route in ways)]
        self._inputs = [
            asked(operation, case, previous, case.options.parallel.rank) for previous, case in self.steps
        ]
        self.right = [answer_of(ORACLES[operation])(inputs) for inputs in self._inputs]
        self._others = [_asked_once() for _ in self.steps]

    def outcome(self, oracle: Callable[..., Any]) -> tuple[str, set[BlindSpot]]:
        """Return what becomes of a broken oracle, and the blind spots that it was in.

        It ``raises``, is ``noticed``, or is ``unseen`` for reasons; ``unexplained`` without one, and in
        ``no answer`` where it says nothing wrong. Raises ``AssertionError`` where it is noticed though
        attention should not be able to see it.
        """
        return self._judged(lambda steps: self._answers(steps, lambda: oracle))

    def outcome_of_mutant(self, mutant: Mutant) -> tuple[str, set[BlindSpot]]:
        """Return what becomes of a mutant of the oracle."""
        function = ORACLES[self.operation]
        home = vars(sys.modules[function.__module__])

        def answers(steps: range) -> list[Any]:
            try:
                with Clock(1.0).running(), swapped(mutant):
                    return self._answers(steps, lambda: home[function.__name__])
            except OutOfTime as error:
                return [error]

        return self._judged(answers)

    def _answers(self, steps: range, oracle: Callable[[], Callable[..., Any]]) -> list[Any]:
        """Return what a function says of each step; the last is an exception where it raises."""
        found: list[Any] = []
        for number in steps:
            try:
                found.append(answer_of(oracle())(Copies(self._inputs[number])))
            except Exception as error:
                return [*found, error]
        return found

    def _judged(self, answers: Callable[[range], list[Any]]) -> tuple[str, set[BlindSpot]]:
        spots: set[BlindSpot] = set()
        hidden = False
        for steps in (range(0, min(FIRST, len(self.steps))), range(FIRST, len(self.steps))):
            for number, wrong in zip(steps, answers(steps), strict=False):
                if isinstance(wrong, BaseException):
                    return "raises", spots
                why, is_noticed = self.one(number, wrong)
                if is_noticed:
                    return "noticed", spots
                hidden |= None in why
                spots |= {spot for spot in why if spot}
        return ("unexplained" if hidden else "unseen" if spots else "no answer"), spots

    def one(self, number: int, wrong: Any) -> tuple[set[BlindSpot | None], bool]:
        """Return the blind spots in which an answer differs, and whether attention differs for it."""
        (previous, case), inputs, right = self.steps[number], self._inputs[number], self.right[number]
        why = reasons(self.operation, inputs, right, wrong)
        if not why:
            return why, False
        answers = {**self._others[number], self.operation: self._instead(case, wrong)}
        faults = judged(case, answers, previous, through=[self.operation]).faults
        assert not faults or None in why, f"{self.operation}: {faults[0]}, though {why}"
        return why, bool(faults)

    def _instead(self, case: Case, wrong: Any) -> Answer:
        right = right_answers()[self.operation]
        if self.operation not in OPERATIONS or "rank" not in OPERATIONS[self.operation].features:
            return lambda inputs: wrong
        return lambda inputs: wrong if inputs["rank"] == case.options.parallel.rank else right(inputs)
