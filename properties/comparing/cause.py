"""The likely cause of wrong values: the known fault that gives exactly the observed values."""

import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from cumae.properties.operations.axes import Extent
from cumae.properties.running.words import Words

MOST_CAUSES = 2
MOST_SUMMANDS = 64
"""Entries of unwritten memory that a wrong value may be computed with."""
_OR = ", or "


class Guess(NamedTuple):
    """A fault in words, and the whole output of a kernel that has it.

    ``distinct``: the number of different wrong values that must fit to rule out a coincidence.
    ``explains_zeros``: whether it also counts if all wrong values are 0. ``is_form``: whether it is no fault
    but another form of the output; where that fits, no fault of a request is as likely.
    """

    cause: str
    values: Sequence[Any]
    distinct: int = 1
    explains_zeros: bool = False
    is_form: bool = False


class Evidence(NamedTuple):
    """The arguments of ``likely_cause``: facts about an output with wrong values."""

    expected: Sequence[Any]
    actual: Sequence[Any]
    wrong: Sequence[int]
    extent: Extent | None = None
    guesses: Sequence[Guess] = ()
    stale: Sequence[int] = ()


def likely_cause(
    expected: Sequence[Any],
    actual: Sequence[Any],
    wrong: Sequence[int],
    extent: Extent | None = None,
    guesses: Sequence[Guess] = (),
    stale: Sequence[int] = (),
) -> str:
    """Return the fault that explains every wrong element, two joined by "or", or "" if there is none.

    ``expected``, ``actual``: the whole output as integers; ``wrong``: indices that differ.
    ``stale``: values of unwritten memory. Without ``extent``, only causes that the values prove count.

    >>> likely_cause([5, 2**31 + 4], [5, 4 - 2**31], [1])
    '32-bit wrap-around: the value passes 2^31 and was computed or stored in 32 bits'
    >>> likely_cause([2**24 + 1], [2**24], [0])
    'rounded to fp32: it holds each integer up to 2^24 only'
    >>> likely_cause([3, 4, 5], [4, 4, 6], [0, 2], extent=Extent(3, 3))
    'off by one: 1 too large'
    >>> likely_cause([3, 4, 5], [9, 4, 2], [0, 2], extent=Extent(3, 3))
    ''
    """
    pairs = [(expected[i], actual[i]) for i in wrong]
    for cause, holds in _PROOFS:
        if all(holds(*pair) for pair in pairs):
            return cause
    if all(found in stale for _, found in pairs):
        return "stale: the value that the memory held before the call"
    if all(_holds_fill(found - want, stale) for want, found in pairs):
        return "stale: computed with what memory held before it was written, such as that of torch.empty"
    if extent is None:
        return ""
    # A buffer may be too short for the live elements.
    extent = Extent(*(min(count, len(expected)) for count in extent))
    if wrong[0] >= extent.num_live:
        values = {found for _, found in pairs}
        held = f"holds {min(values)}" if len(values) == 1 else "is wrong"
        return padding_cause(wrong, extent, len(expected), held)
    if not any(found for _, found in pairs):
        return _cause_of_zeros(expected, wrong, extent.num_live, guesses)
    fitting = [guess for guess in guesses if _fits(guess, expected, actual, wrong)]
    exact = [guess for guess in fitting if _num_wrong(guess, expected) == len(wrong)]
    if forms := [guess.cause for guess in exact if guess.is_form]:
        return "" if _arithmetic(pairs) else forms[0]  # a larger case tells the two apart
    causes = list(dict.fromkeys(guess.cause for guess in exact or fitting))
    if not exact or len(wrong) >= extent.num_live:  # right elements beside wrong ones prove more than steps
        causes = list(dict.fromkeys([*causes, *_arithmetic(pairs)]))
    causes = causes or _shifted(expected, actual, wrong, extent.num_live)
    return _OR.join(causes) if len(causes) <= MOST_CAUSES else ""


def _cause_of_zeros(
    expected: Sequence[Any], wrong: Sequence[int], num_live: int, guesses: Sequence[Guess]
) -> str:
    """Return the only fault that gives these zeros beside right values; zeros alone fit too many faults."""
    if not any(expected[i] for i in set(range(num_live)).difference(wrong)):
        return ""
    causes = {
        guess.cause
        for guess in guesses
        if guess.explains_zeros
        and [i for i, (a, b) in enumerate(zip(guess.values, expected, strict=True)) if a != b] == list(wrong)
    }
    return causes.pop() if len(causes) == 1 else ""


def is_possible(cause: str, seen: Evidence) -> bool:
    """Return whether a cause found on another case, or each of two, gives the wrong values of this one.

    >>> is_possible("off by one: 1 too small", Evidence([1], [0], [0]))
    True
    """
    pairs = [(seen.expected[i], seen.actual[i]) for i in seen.wrong]
    fitting = [
        guess.cause for guess in seen.guesses if all(guess.values[i] == seen.actual[i] for i in seen.wrong)
    ]
    return set(cause.split(_OR)) <= {*fitting, *_arithmetic(pairs)}


def padding_cause(wrong: Sequence[int], extent: Extent, total: int, held: str) -> str:
    """Return the fault of the padding if the wrong elements are exactly the padding, else "".

    >>> padding_cause([3, 4], Extent(3, 5), 8, "is left as it was")
    'the padding begins at the padded count, 5, not at the true one, 3'
    >>> padding_cause([3, 4], Extent(3, 5), 5, "is left as it was")
    'the padding, from 3 on, is left as it was'
    """
    num_live, num_padded = extent
    if list(wrong) == list(range(num_live, num_padded)) and num_padded < total:
        return f"the padding begins at the padded count, {num_padded}, not at the true one, {num_live}"
    if list(wrong) == list(range(num_live, total)):
        return f"the padding, from {num_live} on, {held}"
    return ""


def cause_of_numbers(expected: Words, actual: Words, item_bytes: int, *, rounds: bool = True) -> str:
    """Return the fault that explains every number in which rows of bytes differ, "" if there is none.

    ``rounds``: whether numbers are rounded at all. Of bytes, 0x7f and 0xff are NaN, and next to no number.

    >>> cause_of_numbers(np.array([[0, 0x80, 7, 9]], np.uint8), np.array([[0, 0, 7, 9]], np.uint8), 2)
    'the sign of zero: -0.0 and 0.0 have different bits'
    >>> cause_of_numbers(np.array([[0x3A, 9]], np.uint8), np.array([[0x3B, 9]], np.uint8), 1)
    'rounding: each wrong number is next to the right one'
    >>> cause_of_numbers(np.array([[0x7E]], np.uint8), np.array([[0x7F]], np.uint8), 1)
    ''
    """
    numbers = [np.ascontiguousarray(one).view(f"<u{item_bytes}") for one in (expected, actual)]
    wanted, found = (one[numbers[0] != numbers[1]].astype(np.int64) for one in numbers)
    sign = 1 << (8 * item_bytes - 1)
    if np.all((wanted ^ found == sign) & (wanted % sign == 0)):
        return "the sign of zero: -0.0 and 0.0 have different bits"
    is_nan = item_bytes == 1 and bool(np.isin(np.concatenate([wanted, found]) % 128, 127).any())
    if rounds and not is_nan and np.all(abs(wanted - found) == 1):
        return "rounding: each wrong number is next to the right one"
    return ""


def _holds_fill(difference: int, stale: Sequence[int]) -> bool:
    """Return whether a wrong value has a few entries of unwritten memory too many, or too few."""
    counts = [count for count in range(-MOST_SUMMANDS, MOST_SUMMANDS + 1) if count]
    return any((difference - count * held) % 2**32 == 0 for held in set(stale) for count in counts)


def _wrapped(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


def _short(value: int) -> int:
    return (value + 2**15) % 2**16 - 2**15


def _rounded(value: int) -> int:
    """Return the number nearest to one that fp32 holds, as an int32 does where it passes 2^31."""
    nearest = int(struct.unpack("f", struct.pack("f", value))[0])
    return nearest if nearest < 2**31 else -(2**31)


_PROOFS: tuple[tuple[str, Callable[[int, int], bool]], ...] = (
    (
        "32-bit wrap-around: the value passes 2^31 and was computed or stored in 32 bits",
        lambda want, found: want >= 2**31 and found != want and found in (_wrapped(want), want % 2**32),
    ),
    (
        "rounded to fp32: it holds each integer up to 2^24 only",
        lambda want, found: 2**24 < want < 2**31 and found == _rounded(want),
    ),
    (
        "16-bit wrap-around: the value passes 2^15 and was computed or stored in 16 bits",
        lambda want, found: want >= 2**15 and found in {_short(want), want % 2**16} - {want, 0, -1},
    ),
    (
        "32-bit wrap-around on the way: 2^31 too much or too little, as half of what passed 2^31",
        lambda want, found: (want - found) % 2**32 == 2**31 and want % 2**31 != 0,
    ),
    ("-1 wrapped: -1 was read as unsigned", lambda want, found: want == -1 and found == 2**32 - 1),
)


def _fits(guess: Guess, expected: Sequence[Any], actual: Sequence[Any], wrong: Sequence[int]) -> bool:
    """Return whether a guess gives every wrong value, and not many more wrong ones than observed."""
    if any(guess.values[i] != actual[i] for i in wrong):
        return False
    few = _num_wrong(guess, expected) <= 2 * len(wrong)
    return few and len({actual[i] for i in wrong}) >= guess.distinct


def _num_wrong(guess: Guess, expected: Sequence[Any]) -> int:
    """Return the number of elements that a kernel with the guessed fault gets wrong."""
    return sum(a != b for a, b in zip(guess.values, expected, strict=True))


def _arithmetic(pairs: Sequence[tuple[int, int]]) -> list[str]:
    """Return the causes that the differences alone suggest."""
    steps = {found - want for want, found in pairs}
    causes = []
    if steps in ({1}, {-1}):
        causes.append(f"off by one: 1 too {'large' if steps == {1} else 'small'}")
    if all(want != 0 and found == 2 * want for want, found in pairs):
        causes.append("counts twice: each value is doubled")
    return causes


def _shifted(
    expected: Sequence[Any], actual: Sequence[Any], wrong: Sequence[int], num_live: int
) -> list[str]:
    """Return the direction in which all wrong values are shifted by one element, if several values agree."""
    if len({actual[i] for i in wrong}) < 2:
        return []
    for step, side in ((-1, "before"), (1, "after")):
        if all(0 <= i + step < num_live and expected[i + step] == actual[i] for i in wrong):
            return [f"another row's: each element holds the value of the row {side} it"]
    return []
