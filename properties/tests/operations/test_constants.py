"""Facts about the integers that a function shows."""

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from cumae.properties.operations.constants import constants_of

TILE = 1536
SIZES = (1537, {"wide": 1538})
LIMIT = tl.constexpr(1545)


def _helper(x: int) -> int:
    return x + 1539


def reaches_globals(x: int) -> int:
    return x + TILE + len(SIZES) + _helper(x)


def shows_a_default(x: int, tile: int = 1540) -> int:
    return x + tile


def shifts(x: int) -> int:
    return (x >> 11) + (x & 1022)


def narrows(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.int16)


class Plan:
    """A class with sizes in an attribute, in its constructor and in a method."""

    rows = 1541

    def __init__(self) -> None:
        self.kept = 1542

    def __call__(self, x: int) -> int:
        """Return a sum."""
        return x + self._more()

    def _more(self) -> int:
        return 1543


def _closed(size: int) -> Callable[[int], int]:
    def inner(x: int) -> int:
        return x + size

    return inner


@wraps(_helper)
def wrapped(x: int) -> int:
    return _helper(x)


@triton.jit
def _device(x: Any) -> Any:
    return x + 1546


@triton.jit
def _kernel(out: tl.tensor, BLOCK: tl.constexpr) -> None:
    tl.store(out + tl.arange(0, BLOCK), _device(LIMIT))


_tuned = triton.autotune(configs=[triton.Config({"BLOCK": 1547}), triton.Config({"BLOCK": 1548})], key=[])(
    _kernel
)
_guessed = triton.heuristics({"BLOCK": lambda arguments: 1549})(_kernel)


def launches(out: torch.Tensor) -> None:
    _kernel[(1,)](out, BLOCK=1550)


def launches_tuned(out: torch.Tensor) -> None:
    _tuned[(1,)](out)


def launches_guessed(out: torch.Tensor) -> None:
    _guessed[(1,)](out)


@pytest.mark.parametrize(
    ("function", "shown"),
    [
        (reaches_globals, {1536, 1537, 1538, 1539}),
        (shows_a_default, {1540}),
        (shifts, {2048, 1023}),
        (narrows, {2**15}),
        (Plan, {1541, 1542, 1543}),
        (Plan(), {1541, 1542, 1543}),
        (Plan().__call__, {1541, 1543}),
        (_closed(1544), {1544}),
        (partial(shows_a_default, tile=1551), {1540, 1551}),
        (wrapped, {1539}),
        (launches, {1550, 1546, 1545}),
        (launches_tuned, {1547, 1548, 1546}),
        (launches_guessed, {1549, 1546}),
    ],
)
def test_a_function_shows_the_integers_that_it_reaches(function: Any, shown: set[int]) -> None:
    assert shown <= set(constants_of(function))


def test_code_of_torch_and_of_this_suite_shows_nothing() -> None:
    def calls(x: torch.Tensor) -> Any:
        return torch.nn.functional.pad(x, (0, 1)), constants_of

    assert set(constants_of(calls)) <= {0, 1}


class _Slotted:
    __slots__ = ("size", "unset")

    def __init__(self) -> None:
        self.size = 1552

    def __call__(self, x: int) -> int:
        return x


class _Unwilling:
    """Raises whenever an attribute is asked for, as stands for missing modules do."""

    size = 1553

    def __getattr__(self, name: str) -> Any:
        raise ValueError(name)

    def __call__(self, x: int) -> int:
        return x


def test_an_object_with_slots_shows_those_that_are_set() -> None:
    assert 1552 in constants_of(_Slotted())


def test_no_code_of_an_object_runs() -> None:
    unwilling = _Unwilling()

    def calls(x: int) -> int:
        return unwilling(x)

    assert 1553 in constants_of(calls)


def test_a_cell_without_content_is_left_out() -> None:
    def outer() -> Callable[[], int]:
        def inner() -> int:
            return later

        found = constants_of(inner)
        later = 1
        assert found == []
        return inner

    assert outer()() == 1
