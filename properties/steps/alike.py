"""Traces whose steps are alike, in which each length matters."""

from collections.abc import Sequence
from dataclasses import replace

from cumae.oracle import Case, Trace, leveled
from cumae.properties.cases.reducer import valid
from cumae.properties.steps.ladder import Ladder

NEAR, FAR = 512, 4_096
"""A token selects all of its keys, so that each length matters, also where contexts are long."""
LIMITS = {"window": 128, "ring_capacity": 64, "compress_ratio": 4}
"""Options of steps that see a part of their keys, or keep one state for several."""


def telling_of(ladder: Ladder, topk: int = NEAR) -> Ladder:
    """Return the ladder of steps in which each length matters: a token sees all of its keys, each by itself.

    The host knows the lengths. ``topk``: the keys that a token sees at most.
    """
    selecting = ladder.having("topk", topk) or ladder
    return selecting.without("host_lens", "compress_ratio", "key_scope").unlimited


def limited_of(ladder: Ladder) -> list[Ladder]:
    """Return the ladders of steps with windows, with rings, and with groups; those that there are."""
    plain = (ladder.having("topk", NEAR) or ladder).without("host_lens", "key_scope")
    having = (plain.having(name, value) for name, value in LIMITS.items())
    return [one for one in having if one is not None]


def traced(steps: Sequence[Case | None]) -> Trace | None:
    """Return the trace of these steps with the first one's options, None if a domain has not all of them."""
    found = [step for step in steps if step is not None]
    if not found or len(found) < len(steps):
        return None
    return valid(lambda: leveled([replace(step, options=found[0].options) for step in found]))
