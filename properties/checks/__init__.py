"""What a kernel is held to, one check a file."""

from collections.abc import Callable

from cumae.properties.checks.accepts_strides import accepts_strides
from cumae.properties.checks.agrees import agrees
from cumae.properties.checks.ignores_garbage import ignores_garbage
from cumae.properties.checks.is_deterministic import is_deterministic
from cumae.properties.checks.keeps_facts import keeps_facts
from cumae.properties.checks.stays_in_bounds import stays_in_bounds
from cumae.properties.checks.survives_large_ids import survives_large_ids
from cumae.properties.checks.trial import Trial
from cumae.properties.checks.writes_everything import writes_everything
from cumae.properties.running.binding import Binding
from cumae.properties.verdict import Finding

Check = Callable[[Trial], Finding | None]
CHECKS: dict[str, Check] = {
    "agrees": agrees,
    "writes_everything": writes_everything,
    "stays_in_bounds": stays_in_bounds,
    "ignores_garbage": ignores_garbage,
    "is_deterministic": is_deterministic,
    "accepts_strides": accepts_strides,
    "keeps_facts": keeps_facts,
    "survives_large_ids": survives_large_ids,
}
_STRIDED = {"block_table", "cache", "new_rows", "keys"}


def checks_for(binding: Binding) -> tuple[str, ...]:
    """Return the checks that can say something about a function: all but those it has nothing for."""
    named = {*binding.inputs, *binding.outputs}
    dropped = set()
    if not binding.outputs:
        dropped.add("writes_everything")
    if binding.operation.enlarge is None:
        dropped.add("survives_large_ids")
    if not (named & _STRIDED and binding.domain.strided):
        dropped.add("accepts_strides")
    return tuple(name for name in CHECKS if name not in dropped)


__all__ = ["CHECKS", "Check", "Trial", "checks_for"]
