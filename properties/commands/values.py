"""Kinds of values of options, which raise errors in the form of all others: name, value, rule."""

import re
from typing import Any

import click
from click.types import FloatParamType

from cumae.oracle.model.rules import require, require_choice, require_int

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}


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


def parse_time(text: str) -> float:
    """Return seconds of ``90``, ``60s``, ``5m`` or ``1h``; ``ValueError`` for anything else."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    if match is None or float(match[1]) == 0:
        raise ValueError(f"--time = {text!r}, must be a time above 0 such as 60s, 5m or 1h")
    return float(match[1]) * _SECONDS[match[2] or "s"]


def time_or_cases(text: str | None, cases: int | None, default: str | None = None) -> float | None:
    """Return the seconds of ``--time``, or of its ``default``; None if ``--cases`` bound a run instead.

    Raises ``ValueError`` if both are given.
    """
    require(text is None or cases is None, "--time", text, f"be left out with --cases = {cases}")
    chosen = text or (default if cases is None else None)
    return None if chosen is None else parse_time(chosen)


def parse_shard(text: str, field: str = "--shard") -> tuple[int, int]:
    """Return (i, n) of ``i/n`` with 1 <= i <= n; ``ValueError`` for anything else."""
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise ValueError(f"{field} = {text!r}, must be i/n with 1 <= i <= n")
    return int(match[1]), int(match[2])


def _name(param: click.Parameter | None) -> str:
    return param.opts[0] if param is not None else "value"
