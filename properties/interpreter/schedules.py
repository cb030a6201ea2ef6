"""Schedules: which program of a launch runs next, by a list, by priorities, at random or in turn."""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from math import factorial, prod
from random import Random


class Schedule:
    """Chooses the program that runs next. ``taken``: the choices so far, over all launches of a call."""

    def __init__(self) -> None:
        self.taken: list[int] = []

    def next(self, awake: tuple[int, ...], current: int) -> int:
        """Return one of the programs that can run; ``current``: the one that ran last, or -1."""
        chosen = self._choose(awake, current)
        self.taken.append(chosen)
        return chosen

    def _choose(self, awake: tuple[int, ...], current: int) -> int:
        raise NotImplementedError


class InTurn(Schedule):
    """Gives the turn to the next program at each access."""

    def _choose(self, awake: tuple[int, ...], current: int) -> int:
        return next((program for program in awake if program > current), awake[0])


class Listed(Schedule):
    """Follows a list. Where the list has ended or names another program, the current program goes on."""

    def __init__(self, turns: Sequence[int]) -> None:
        super().__init__()
        self._turns = turns

    def _choose(self, awake: tuple[int, ...], current: int) -> int:
        at = len(self.taken)
        if at < len(self._turns) and self._turns[at] in awake:
            return self._turns[at]
        return current if current in awake else awake[0]


class Shuffled(Schedule):
    """Chooses at random."""

    def __init__(self, seed: str) -> None:
        super().__init__()
        self._random = Random(seed)

    def _choose(self, awake: tuple[int, ...], current: int) -> int:
        return self._random.choice(awake)


class Prioritised(Schedule):
    """Runs the program of the highest random priority; at a few random turns the running one falls last.

    A fault that needs ``changes`` switches at certain places among ``length`` turns is found with a
    probability of at least 1 / (programs * length ** changes): see Burckhardt et al., "A randomized
    scheduler with probabilistic guarantees of finding bugs" (ASPLOS 2010).
    """

    def __init__(self, seed: str, changes: int, length: int) -> None:
        super().__init__()
        self._random = Random(seed)
        self._changes = set(self._random.sample(range(length), min(changes, length)))
        self._priorities: dict[int, float] = {}

    def _choose(self, awake: tuple[int, ...], current: int) -> int:
        for program in (*awake, current):
            self._priorities.setdefault(program, self._random.random())
        if len(self.taken) in self._changes:
            self._priorities[current] = -len(self.taken)
        return max(awake, key=lambda program: self._priorities[program])


class _Enumerated(Schedule):
    """Follows the beginning of an order, then takes the first program each time; keeps the programs left."""

    def __init__(self, turns: Sequence[int]) -> None:
        super().__init__()
        self._turns = turns
        self._left: list[list[int]] = []

    def _choose(self, awake: tuple[int, ...], current: int) -> int:
        at = len(self.taken)
        chosen = self._turns[at] if at < len(self._turns) else awake[0]
        self._left.append([program for program in awake if program > chosen])
        return chosen

    def following(self) -> list[int] | None:
        """Return the beginning of the next order, None after the last."""
        ends = [at for at, left in enumerate(self._left) if left]
        return [*self.taken[: ends[-1]], self._left[ends[-1]][0]] if ends else None


def every_order() -> Iterator[Schedule]:
    """Yield a schedule for each order of the accesses; the caller runs each before it asks for the next."""
    beginning: list[int] | None = []
    while beginning is not None:
        schedule = _Enumerated(beginning)
        yield schedule
        beginning = schedule.following()


def num_orders(points: Sequence[Sequence[int]]) -> int:
    """Return the number of orders of several launches, given the accesses of each program.

    >>> num_orders([[2, 2], [1, 1]])
    12
    """
    return prod(factorial(sum(each)) // prod(map(factorial, each)) for each in points)


def written(turns: Sequence[int]) -> str:
    """Return turns as text, with repeated ones counted.

    >>> written([0, 0, 0, 1, 0])
    '0*3 1 0'
    """
    runs = [(program, len(list(run))) for program, run in groupby(turns)]
    return " ".join(f"{program}*{count}" if count > 1 else f"{program}" for program, count in runs)


def turns_of(text: str) -> list[int]:
    """Return the turns that a text stands for. Raises ``ValueError`` for another text.

    >>> turns_of("0*3 1 0")
    [0, 0, 0, 1, 0]
    """
    turns = []
    for run in text.split():
        parts = re.fullmatch(r"([0-9]+)(?:\*([0-9]+))?", run)
        if parts is None:
            raise ValueError(f"schedule = {text!r}, must be program numbers such as '0*3 1 0'")
        turns += [int(parts[1])] * int(parts[2] or 1)
    return turns
