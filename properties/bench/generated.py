"""The cases on which two versions of a function are compared."""

from collections.abc import Iterable, Iterator
from itertools import islice
from math import inf

from cumae.oracle import Case
from cumae.properties.cases.seeded import seeded_cases
from cumae.properties.operations.binding import Binding
from cumae.properties.running.launches import Launches, noting_launches
from cumae.properties.search.due import MOST_ACCESSES
from cumae.properties.search.first_cases import fixture_cases
from cumae.properties.search.named import NamedSizes
from cumae.properties.steps.ladder import TILES, Ladder
from cumae.properties.steps.option_sizes import valued

ACCESSES, PROGRAMS = 100_000, 10_000
"""The most interpreted loads and stores, and programs, of all cases of chosen sizes: some ten seconds."""
MOST_SIZES, LARGEST = 8, 4_097
LONG, MANY, LARGEST_ID = 1_025, 129, 65_537


def generated_cases(base: Binding, candidate: Binding, seed: int, count: int) -> Iterator[Case]:
    """Yield fixtures, cases on both sides of the sizes that the functions show, and ``count`` drawn cases.

    The caller runs each case before it takes the next. A launch that is too much work for the interpreter
    raises ``TooMuchWork``.
    """
    features = base.features & candidate.features
    named = [NamedSizes(base.function), NamedSizes(candidate.function)]
    with noting_launches() as launches:
        for case in fixture_cases(base):
            yield case
            shown = launches.take()
            for one in named:
                one.note(case, shown)
        sizes = dict.fromkeys(size for one in named for size in one.sizes() if size <= LARGEST)
        yield from _bounded(_sized(Ladder(base.domain, features), list(sizes)[:MOST_SIZES]), launches)
        launches.most_programs, launches.most_accesses = inf, MOST_ACCESSES
        yield from islice(seeded_cases(seed, base.domain, features), count)


def _bounded(cases: Iterable[Case | None], launches: Launches) -> Iterator[Case]:
    """Yield cases, and let each launch have the work that is left."""
    programs, accesses = launches.programs + PROGRAMS, launches.accesses + ACCESSES
    for case in cases:
        if launches.programs >= programs or launches.accesses >= accesses:
            return
        if case is not None:
            launches.most_programs = programs - launches.programs
            launches.most_accesses = accesses - launches.accesses
            yield case


def _sized(ladder: Ladder, sizes: list[int]) -> Iterator[Case | None]:
    """Yield cases of chosen sizes, those of the functions' own sizes first."""
    yield ladder.edges(sorted({*TILES[:4], *sizes}))
    yield ladder.many(MANY)
    yield ladder.padded(LONG, MANY)
    for size in sizes:
        yield ladder.tokens(size + 1, 0)
        yield ladder.tokens(size - 1, 2)
        yield ladder.padded(size, size - 4)
        yield from valued(ladder, size + 1)
    for size in sizes:
        yield ladder.requests(size + 1, 0)
        yield ladder.requests(size - 1, 2)
        yield ladder.wide(size + 1)
    yield ladder.edges(TILES)
    yield ladder.long(LONG)
    yield ladder.ids(LARGEST_ID)
