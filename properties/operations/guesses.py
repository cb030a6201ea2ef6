"""Guesses at what a parameter is meant to be: a name of its dialect, or one of another dialect."""

from collections.abc import Sequence

from cumae.oracle.model.rules import did_you_mean
from cumae.properties.dialects import DIALECTS, Dialect
from cumae.properties.operations.operation import Operation
from cumae.properties.operations.outputs import outputs_of


def guess(name: str, names: Sequence[str], operation: Operation, dialect: Dialect) -> str:
    """Return a hint at what a parameter without a meaning may be, "" if nothing resembles it.

    ``names``: all parameters that must be filled. If another dialect knows more of them, they are probably
    written in that one.
    """
    others = [one for one in DIALECTS.values() if one.name != dialect.name and outputs_of(operation, one)]
    unknown = {one.name: _unknown(names, operation, one) for one in others}
    fewest = min(map(len, unknown.values()), default=len(names))
    if fewest < len(_unknown(names, operation, dialect)):
        best = " or ".join(other for other, left in unknown.items() if len(left) == fewest)
        left = unknown[best.partition(" or ")[0]]
        told = "all of these" if not left else f"all but {', '.join(left)}"
        return f" ({told} are {best}'s: --dialect {best}?)"
    return did_you_mean(name, (*outputs_of(operation, dialect), *dialect.inputs))


def _unknown(names: Sequence[str], operation: Operation, dialect: Dialect) -> list[str]:
    known = {"device", *dialect.inputs, *outputs_of(operation, dialect)}
    return [name for name in names if name not in known]
