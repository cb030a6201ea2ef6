"""One metamorphic relation: the elements that must correspond, and whether a function's answers keep it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cumae.oracle import Case
from cumae.properties.comparing.parts import Part
from cumae.properties.running.words import Words

Indices = npt.NDArray[np.int64]
Move = Callable[[Words], Words]


class Pairs(NamedTuple):
    """Elements of a part, and the corresponding ones of the same part on the related case ``k``.

    ``owners``: the request of each, -1 for none. ``moves``: how values may change if they do not stay.
    """

    k: int
    here: Indices
    there: Indices
    owners: Indices
    moves: tuple[Move, ...] = ()


@dataclass(frozen=True, slots=True)
class Fact:
    """One metamorphic relation: ``relate`` makes the other cases, ``pairs`` the corresponding elements.

    ``told``: the message of a violation, with ``what`` and ``whose`` (the request) to fill in.
    """

    rule: str
    told: str
    relate: Callable[[Case], list[Case]]
    pairs: Callable[[Case, Part, Sequence[Part]], Iterator[Pairs]]


def broken_at(pairs: Pairs, here: Part, there: Part) -> int | None:
    """Return the request of the first pair that the oracle's answers keep and the function's do not.

    -1 for a pair of no request, None if all pairs are kept.
    """
    inside = (pairs.here < len(here.words)) & (pairs.there < len(there.words))
    first, second, owners = (a[inside] for a in (pairs.here, pairs.there, pairs.owners))
    both = here.held[first] & there.held[second]
    # The move is the one that most of the part follows: a single value can fit a wrong one by chance.
    moves = (_stays, *(pairs.moves if here.words.ndim == 1 else ()))
    facts = [both & _same(move(here.wanted[first]), there.wanted[second]) for move in moves]
    is_fact, move = max(zip(facts, moves, strict=True), key=lambda one: int(one[0].sum()))
    broken = np.flatnonzero(is_fact & ~_same(move(here.words[first]), there.words[second]))
    return int(owners[broken[0]]) if len(broken) else None


def _stays(words: Words) -> Words:
    return words


def _same(some: Words, others: Words) -> npt.NDArray[np.bool_]:
    return np.asarray((some == others).all(axis=-1) if some.ndim > 1 else some == others)
