"""The kinds of walks: how long each is, how large its engine, and what its requests ask for."""

from collections.abc import Collection
from dataclasses import dataclass, replace

from cumae.properties.state.setting import Sizes

SMALL = Sizes()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One kind of walk.

    ``num_steps``: steps of its trace. ``sizes``: of the engine. ``wishes``: tokens that a request may ask for
    in a step. ``worlds``: the usual numbers of ranks. ``topk``: the usual numbers of selected keys; empty for
    small ones. ``grows``: the largest step grows by half from step to step, up to the engine's.

    In percent: ``steady``, steps in which every request asks for as much as before; ``idles``, steps that
    begin a spell in which some or all rows idle, for at most ``longest`` steps; ``bursts``, large steps
    between two equal ones; ``arrivals``, of a request for a free row; ``cached``, of arrivals whose first
    tokens another engine has computed; ``leaves``, steps of many requests after which all but a few end.
    """

    num_steps: int = 12
    sizes: Sizes = SMALL
    wishes: tuple[int, ...] = (1, 1, 0, 2, 3, 5, 17)
    worlds: tuple[int, ...] = (1, 1, 2, 3)
    topk: tuple[int, ...] = ()
    grows: bool = False
    steady: int = 40
    idles: int = 5
    longest: int = 3
    bursts: int = 4
    arrivals: int = 40
    cached: int = 10
    leaves: int = 0


FEW_ROWS = Plan(
    num_steps=270,
    sizes=Sizes(num_rows=3, blocks_each=1, budget=6),
    wishes=(1, 0, 2, 1),
    worlds=(3, 2),
    topk=(3, 8),
    idles=2,
    longest=40,
    cached=50,
)
"""More steps than a byte counts; keys of steps come back."""
MANY_KEYS = replace(
    FEW_ROWS,
    sizes=Sizes(num_rows=4, budget=16, least_tokens=160),
    wishes=(1, 0, 2, 3, 4),
    worlds=(2, 3, 4),
    topk=(8, 64),
    steady=5,
    idles=1,
    bursts=0,
)
"""As long, with keys that seldom come back."""
WIDE = Plan(
    num_steps=26,
    sizes=Sizes(num_rows=72, budget=512, least_tokens=128),
    wishes=(1, 0, 1, 0, 2),
    topk=(8, 64),
    grows=True,
    steady=60,
    idles=40,
    bursts=20,
    arrivals=96,
)
"""Rows of a busy engine; its steps grow through all buckets first."""
CHUNKS = Plan(
    num_steps=6,
    sizes=Sizes(num_rows=2, budget=256, least_tokens=2048, large_blocks=True),
    wishes=(256, 256, 256, 1),
    worlds=(1, 2, 4, 8, 16),
    topk=(512,),
    steady=60,
    idles=20,
    arrivals=80,
)
"""Long prompts in equal chunks."""
DECODES = Plan(
    num_steps=10,
    sizes=Sizes(num_rows=2, budget=4, least_tokens=8192, large_blocks=True),
    wishes=(1, 1, 1, 4),
    worlds=(1, 2, 4, 8, 16),
    topk=(4096, 2048, 4096, 1024, 4096),
    idles=15,
    arrivals=80,
    cached=90,
)
"""Long contexts, about as long as the selection and longer."""
DRAINS = Plan(
    num_steps=7,
    sizes=Sizes(num_rows=4, budget=4096, least_tokens=4096, large_blocks=True),
    wishes=(1, 0),
    topk=(8,),
    steady=60,
    idles=0,
    bursts=80,
    arrivals=90,
    cached=0,
)
"""Steps of thousands of tokens, each between two small ones: most of the buffers is to be cleared."""
CROWDS = replace(
    DRAINS,
    num_steps=6,
    sizes=Sizes(num_rows=1100, blocks_each=1, budget=2048),
    wishes=(1, 0, 2, 1),
    steady=0,
    bursts=0,
    arrivals=100,
    leaves=80,
)
"""Steps of a thousand requests, and of the few that are left once the others have ended."""
BRIEF = replace(WIDE, num_steps=5, grows=False)
ROUND: tuple[tuple[Plan, ...], ...] = (
    *((Plan(num_steps=count),) for count in (12, 3, 7, 12)),
    (WIDE,),
    *((Plan(num_steps=count),) for count in (5, 12, 2)),
    (DECODES,),
    (FEW_ROWS, MANY_KEYS, Plan(), FEW_ROWS, Plan()),
    *((Plan(num_steps=count),) for count in (12, 4)),
    (DECODES,),
    (DRAINS, Plan(), CROWDS, Plan(), Plan()),
    (CHUNKS,),
)
"""The kinds of consecutive walks; where there are several, they take turns from round to round."""
_COSTLY = ("row_format", "router", "head_format")
"""Features whose tensors are large, so their engines stay small."""


def plan_of(number: int, features: Collection[str], *, keeps_state: bool) -> Plan:
    """Return the plan of a walk: traces of functions without state are short, and seldom wide."""
    kinds = ROUND[number % len(ROUND)]
    plan = kinds[number // len(ROUND) % len(kinds)]
    if any(name in features for name in _COSTLY):
        return replace(plan, sizes=SMALL) if plan.num_steps > 200 else Plan()
    if keeps_state:
        return plan
    return BRIEF if plan is WIDE else Plan(num_steps=min(plan.num_steps, 12))
