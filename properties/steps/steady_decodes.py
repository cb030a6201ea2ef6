"""A long trace of decodes that go on: beyond their selections, where nothing that matters changes."""

from functools import partial

from cumae.oracle import Case, Trace
from cumae.properties.cases.reducer import valid
from cumae.properties.steps.alike import telling_of, traced
from cumae.properties.steps.crowds import Lens
from cumae.properties.steps.ladder import Ladder

DECODING, PAGE, SELECTED = 12, 64, 64
"""Decodes, the usual page size, and the keys that each selects: all see more."""
STEADY = 34
"""Steps in which nothing changes but the lengths, more than five bits count."""
GRAPHS = ((4, 4), (20, 20), (20, 0), (4, 4), (0, 0))
"""Padded tokens and requests of the steps that follow."""
PAUSED, LATER = 5, 3
"""The place of a request that comes and is idle, and steps behind a step of nobody."""


def gone_on(ladder: Ladder) -> Trace | None:
    """Return steps of decodes that all grow by a token, beyond their selections.

    They are padded to other graphs, nobody computes anything in one step, the host does not know the lengths
    of another, a paused request comes and goes, and at last one is replaced by a shorter one.
    """
    telling = telling_of(ladder, SELECTED)
    size = telling.nearest_block(PAGE)
    pads = ladder.domain.padding != "none"
    steps: list[Case | None] = []

    def grown(lens: dict[int, Lens] | None = None, padding: tuple[int, int] = (0, 0)) -> Case | None:
        more = len(steps)
        each: list[Lens] = [("decode", PAGE * (2 + b % 3) + 1 + more, 1) for b in range(DECODING)]
        for place, one in (lens or {}).items():
            each.insert(place, one)
        return telling.step(each, seed=DECODING, padding=padding if pads else (0, 0), block_size=size)

    for _ in range(STEADY):
        steps.append(grown())
    for padding in GRAPHS:
        steps.append(grown(padding=padding))
    if ladder.domain.empty_requests and not ladder.domain.min_requests:
        steps.append(telling.step([], seed=DECODING, padding=(0, 0), block_size=size))
    for _ in range(LATER):
        steps.append(grown())
    hidden = grown()
    if ladder.hides_lens and hidden is not None:
        steps += [valid(partial(hidden.laid_out, host_lens=False)), grown()]
    if ladder.domain.empty_requests:
        steps += [grown(), grown({PAUSED: ("decode", PAGE, 0)}), grown()]
    return traced([*steps, grown({DECODING: ("decode", 9, 1)}), grown()])
