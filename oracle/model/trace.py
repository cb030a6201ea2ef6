"""A trace: consecutive steps of one engine, each a case."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cumae.oracle.model.case import Case
from cumae.oracle.model.rules import require


@dataclass(frozen=True, slots=True)
class Trace:
    """Steps of one engine; block size, ranks, options and buffers are the same in all of them.

    Only what ``CHANGING`` names may change: each layer selects other keys and has its own window, ratio, ring
    and scales, each step has other drafts, and its workspace may lie elsewhere.
    Raises ``ValueError`` for an empty trace and for steps that cannot be of one engine.
    """

    steps: tuple[Case, ...]

    def __post_init__(self) -> None:
        is_list = isinstance(self.steps, Sequence) and not isinstance(self.steps, str)
        require(is_list and len(self.steps) > 0, "steps", self.steps, "be a list of at least one case")
        object.__setattr__(self, "steps", tuple(self.steps))
        for k, step in enumerate(self.steps):
            require(isinstance(step, Case), f"steps[{k}]", step, "be a Case")
            for name, have, need in zip(_NAMES, _engine_of(step), _engine_of(self.steps[0]), strict=True):
                if have != need:
                    require(False, f"steps[{k}].{name}", have, f"be {need}, as in the first step")

    def then(self, step: Case) -> "Trace":
        """Return the trace with one more step. Only that step is checked, as in a new trace."""
        Trace((self.steps[0], step))
        longer = object.__new__(Trace)
        object.__setattr__(longer, "steps", (*self.steps, step))
        return longer


_NAMES = ("batch.block_size", "batch.world", "options", "max_num_tokens")


CHANGING: Mapping[str, Any] = {
    "selection_order": "mixed",
    "selection_seed": 0,
    "workspace_gap": 0,
    "draft_seed": 0,
    "window": 0,
    "compress_ratio": 1,
    "ring_capacity": 4,
    "key_scale_thousandths": 1_000,
    "value_scale_thousandths": 1_000,
}
"""The options that may change from step to step, and a value of each."""


def _engine_of(case: Case) -> tuple[object, ...]:
    options = case.options
    if any(options.value(name) != value for name, value in CHANGING.items()):
        options = options.having(**CHANGING)
    return case.batch.block_size, case.batch.world, options, case.max_num_tokens


def leveled(steps: Sequence[Case], spare: int = 0) -> Trace:
    """Return the steps as a trace whose persistent buffers have ``spare`` rows more than the longest step.

    Raises ``ValueError`` as ``Trace`` does.
    """
    longest = spare + max((step.num_tokens_padded for step in steps), default=0)
    known = {id(step): _with_spare_tokens(step, longest - step.num_tokens_padded) for step in steps}
    return Trace(tuple(known[id(step)] for step in steps))


def _with_spare_tokens(step: Case, count: int) -> Case:
    if step.layout.num_spare_tokens == count:
        return step
    return replace(step, layout=replace(step.layout, num_spare_tokens=count))
