"""Traces of one step in layers that differ in an option: in their window, ratio, ring or scales."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from cumae.oracle import Trace, leveled
from cumae.properties.cases.reducer import valid
from cumae.properties.steps.crowds import Lens
from cumae.properties.steps.ladder import Ladder

LAYERS: Mapping[str, Sequence[int]] = {
    "window": (128, 0, 64),
    "compress_ratio": (4, 128, 1),
    "ring_capacity": (8, 128),
    "key_scale_thousandths": (125, 1_000, 15),
    "value_scale_thousandths": (125, 1_000, 15),
}
"""Options in which layers of one model differ, and values of each; promised ones stand in for those of them
that a function does not promise."""
MOST_VALUES, DEEP, DEEPEST = 3, 650, 5_000
ALIKE: Mapping[str, Any] = {"head_format": "fp8", "page_order": "NHD", "min_window_columns": 128}
"""Options that all layers have: keys have scales, and rows of windows are equally long."""
STEP: Sequence[Lens] = (
    ("prefill", 150, 110),
    ("decode", 49, 1),
    ("prefill", 0, 40),
    ("decode", 127, 1),
)
"""Requests of which some are beyond a window or have more tokens than a ring, and others are not. A decode
that is deeper than all windows stands in front of them."""


def in_layers_of(name: str, ladder: Ladder) -> Trace | None:
    """Return a trace of one step again and again, in which the option ``name`` changes and comes back."""
    plain = ladder.without("world", "key_scope").preferring(**ALIKE)
    plain = plain if name == "window" else plain.unlimited
    promised = plain.domain.among(name, LAYERS[name])
    values = [value for value in promised if plain.having(name, value) is not None][:MOST_VALUES]
    if len(values) < 2 or (layered := plain.having(name, values[0])) is None:
        return None
    lens: list[Lens] = [("decode", min(max(DEEP, *values), DEEPEST) + 3, 1), *STEP]
    if (step := layered.step(lens, seed=len(lens), padding=(0, 0))) is None:
        return None
    options = [step.options.having(**{name: value}) for value in (*values, values[0])]
    return valid(lambda: leveled([replace(step, options=each) for each in options]))
