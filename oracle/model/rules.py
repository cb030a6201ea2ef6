"""One form for every error: name, value, rule."""

import reprlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from opcode import opmap

INT32_MAX = 2**31 - 1
MOST_NAMED = 40
"""The most choices that an error lists."""
Allowed = range | tuple[object, ...]
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 160
"""Names and paths are shown whole."""


def require(
    holds: bool, name: str, value: object, rule: str, allowed: Allowed | None = None, hint: str = ""
) -> None:
    """Raise ``ValueError("name = value, must rule")`` unless ``holds``.

    ``allowed``: the rule as data, for ``allowed_by``. ``hint``: what the value may be meant to be; it follows
    the value, because the rule may be long.
    """
    if not holds:
        error = ValueError(f"{name} = {_SHORT.repr(value)}{hint}, must {rule}")
        vars(error)["allowed"] = allowed
        raise error


def allowed_by(error: ValueError) -> Allowed | None:
    """Return the values that the broken rule of an error allows, None for a rule of another kind."""
    allowed: Allowed | None = vars(error).get("allowed")
    return allowed


def is_refusal(error: BaseException) -> bool:
    """Return whether a statement of cumae raised an error, as it does for each broken rule.

    An error of a function of Python or of another library is a mistake in what called it, not bad input.
    """
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None or not isinstance(error, ValueError):
        return False
    code, module = last.tb_frame.f_code, str(last.tb_frame.f_globals.get("__name__"))
    return module.startswith("cumae.") and code.co_code[last.tb_lasti] == opmap["RAISE_VARARGS"]


def require_int(name: str, value: object, low: int, high: int = INT32_MAX) -> None:
    """Raise ``ValueError`` unless ``value`` is an ``int`` (no ``bool``) in ``[low, high]``."""
    if type(value) is not int:
        raise ValueError(f"{name} = {_SHORT.repr(value)}, must be an integer")
    if not low <= value <= high:
        allowed = range(low, high + 1)
        require(value >= low, name, value, f"be >= {low}", allowed)
        require(value <= high, name, value, f"be <= {high}", allowed)


def require_bool(name: str, value: object) -> None:
    """Raise ``ValueError`` unless ``value`` is a ``bool``."""
    require(type(value) is bool, name, value, "be true or false")


def require_choice(name: str, value: object, choices: Sequence[object]) -> None:
    """Raise ``ValueError`` unless ``value`` is one of ``choices``."""
    for choice in choices:
        if type(value) is type(choice) and value == choice:
            return
    rule = "be one of " + ", ".join(map(repr, choices[:MOST_NAMED]))
    if len(choices) > MOST_NAMED:
        rule += f" and {len(choices) - MOST_NAMED} more"
    hint = did_you_mean(value, choices) if len(choices) > 4 else ""  # of a few, all are in sight
    require(False, name, value, rule, tuple(choices), hint)


def did_you_mean(value: object, choices: Iterable[object]) -> str:
    """Return a hint at the name that an unknown name resembles most, "" if it resembles none.

    >>> did_you_mean("slot_maping", ("position_ids", "slot_mapping"))
    " (did you mean 'slot_mapping'?)"
    """
    if not isinstance(value, str):
        return ""
    near = get_close_matches(value.lower(), [name for name in choices if isinstance(name, str)], n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


@contextmanager
def inside(path: str) -> Iterator[None]:
    """Prefix the names in errors that are raised inside with their path in a file."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{path}{error}") from error
