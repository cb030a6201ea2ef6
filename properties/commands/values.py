"""Kinds of values of options, which raise errors in the form of all others: name, value, rule."""

from typing import Any

import click
from click.types import FloatParamType

from cumae.oracle.model.rules import require, require_choice, require_int


class Whole(click.IntRange):
    """An integer, at least as large as its ``min``."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the integer. Raises ``ValueError`` for another value."""
        least = int(self.min or 0)
        try:
            number = int(value)
        except ValueError:
            require(False, _name(param), value, f"be an integer >= {least}")
        require_int(_name(param), number, least)
        return number


class OneOf(click.Choice[str]):
    """One of a few words."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the word. Raises ``ValueError`` for another one."""
        require_choice(_name(param), value, tuple(self.choices))
        return str(value)


class Seconds(FloatParamType):
    """A number of seconds, above 0."""

    RULE = "be a number of seconds > 0"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number. Raises ``ValueError`` for another value."""
        try:
            seconds = float(value)
        except ValueError:
            require(False, _name(param), value, self.RULE)
        require(0 < seconds < float("inf"), _name(param), seconds, self.RULE)
        return seconds


def _name(param: click.Parameter | None) -> str:
    return param.opts[0] if param is not None else "value"
