"""Pairs of option values that engines run: seeded cases are drawn so that every pair soon meets."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from itertools import combinations, product
from typing import Any

from cumae.oracle import Case
from cumae.properties.cases.choices import SeededChoices
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.draws import draw_case
from cumae.properties.cases.features import FEATURES
from cumae.properties.cases.fields import reader_of
from cumae.properties.cases.page_formats import fitting_sizes
from cumae.properties.cases.values import MOST_SELECTED

MOST_ASKED = 3
"""Draws of a pair: one that never came of them cannot be combined."""
REFUSAL = 100
"""A refused pair outweighs all that a value could add."""
PAIRED = 90
"""The share of seeded cases, in percent, that are drawn for pairs while some are missing."""
MOST_ROUTED = 2**12
"""Logits of a case that is drawn for pairs."""
MOST_RUN = 256
"""Tokens of a run that a request has now and then."""
_LENGTHS = ("window", "topk", "split_size", "compress_ratio")
"""Options that are lengths: contexts on both sides of them show their value."""
Value = tuple[str, Any]
Pair = tuple[Value, Value]


class Pairs:
    """The pairs of two options' values that a search has to see, and those that it saw."""

    def __init__(self, domain: Domain, features: Collection[str]) -> None:
        self._domain = domain
        self._values = values_of(domain, features)
        grid = combinations(self._values.items(), 2)
        self._missing: dict[Pair, None] = {
            ((one, a), (other, b)): None
            for (one, of), (other, others) in grid
            for a, b in product(of, others)
        }
        self._asked: Counter[Pair] = Counter()
        self.total = len(self._missing)

    @property
    def num_seen(self) -> int:
        """The number of pairs that a case has shown."""
        return self.total - len(self._missing)

    def note(self, case: Case) -> None:
        """Count the pairs of a case as seen."""
        if self._missing:
            own = zip(self._values, _values_in(case, tuple(self._values)), strict=True)
            for pair in combinations(own, 2):
                self._missing.pop(pair, None)

    def draw(self, seed: int, features: Collection[str], sizes: tuple[int, ...] = ()) -> Case:
        """Return the case of a seed that shows as many missing pairs as one case can."""
        choices = SeededChoices(seed, sizes)
        wanted = [pair for pair in self._missing if self._asked[pair] < MOST_ASKED]
        if not wanted or not choices.chance(PAIRED):
            return draw_case(choices, self._domain, features)
        first = min(wanted, key=self._asked.__getitem__)
        self._asked[first] += 1
        chosen = dict(first)
        others = [name for name in self._values if name not in chosen]
        for name in sorted(others, key=lambda name: choices.integer(0, 999)):
            gains = {value: self._gain((name, value), chosen) for value in self._values[name]}
            best = max(gains.values())
            chosen[name] = choices.pick([value for value, gain in gains.items() if gain == best])
        domain = (
            _pinned(self._domain, chosen, features)
            or _pinned(self._domain, dict(first), features)
            or self._domain
        )
        block = chosen.get("block_size", 1) * chosen.get("world", 1)
        near = (block, block // 2, *(chosen[name] for name in _LENGTHS if chosen.get(name, 0) > 1))
        # A run over all ranks: each of them owns some of these tokens.
        run = chosen.get("world", 1) * chosen.get("interleave", 1)
        runs = (run,) if 1 < run <= MOST_RUN else ()
        return draw_case(SeededChoices(seed, sizes, near, runs), domain, features)

    @property
    def num_refused(self) -> int:
        """The number of pairs that were asked for again and again and that no case has shown."""
        return sum(self._asked[pair] >= MOST_ASKED for pair in self._missing)

    def _gain(self, value: Value, chosen: Mapping[str, Any]) -> int:
        """Return how many missing pairs a value adds to the chosen ones; less than 0 for refused pairs."""
        gain = 0
        for other in chosen.items():
            for pair in ((value, other), (other, value)):
                if pair in self._missing:
                    gain += 1 if self._asked[pair] < MOST_ASKED else -REFUSAL
        return gain


def values_of(domain: Domain, features: Collection[str]) -> dict[str, tuple[Any, ...]]:
    """Return by option the values that engines run and that the domain promises, if there are several."""
    found: dict[str, tuple[Any, ...]] = {"block_size": fitting_sizes(domain, features)}
    for row in FEATURES:
        if not row.engines or not (row.always or row.name in features):
            continue
        name = row.name if len(row.fields) > 1 else row.fields[0]
        if name == "router":
            found[name] = domain.router_shapes or row.engines
        else:
            promised = domain.values.get(name)
            found[name] = row.engines if promised is None else promised
    return {name: values for name, values in found.items() if len(values) > 1}


def paired_cases(
    seed: int, domain: Domain, features: Collection[str], pairs: Pairs, sizes: tuple[int, ...] = ()
) -> Iterator[Case]:
    """Yield cases without end, one for each seed from ``seed * 2**32`` on, that show missing pairs first."""
    number = seed << 32
    while True:
        yield pairs.draw(number, features, sizes)
        number += 1


def _values_in(case: Case, names: tuple[str, ...]) -> Iterator[Any]:
    """Yield the values of options in a case."""
    fields = tuple(name for name in names if name not in _OF_THE_DOMAIN)
    have = dict(zip(fields, reader_of(fields)(case)[1:], strict=True))
    router = case.options.router
    shape = (router.num_experts, router.num_groups, router.topk_group, router.top_k)
    have |= {"block_size": case.batch.block_size, "router": shape}
    return map(have.__getitem__, names)


def _pinned(domain: Domain, chosen: Mapping[str, Any], features: Collection[str]) -> Domain | None:
    """Return the domain with one value for each chosen option; None if no case can have them all."""
    values = dict(domain.values) | {name: (v,) for name, v in chosen.items() if name not in _OF_THE_DOMAIN}
    promises: dict[str, Any] = {"values": values}
    if "block_size" in chosen:
        promises["block_sizes"] = (chosen["block_size"],)
    if "router" in chosen:
        promises["router_shapes"] = (chosen["router"],)
    # A router's rows are judged one by one, expert by expert.
    columns = chosen.get("min_window_columns", 0)
    listed = max(chosen.get("window", 0), columns) if columns else 1
    most = MOST_SELECTED // max(chosen.get("topk", 1), listed)
    most = min(most, MOST_ROUTED // chosen.get("router", (1,))[0])
    promises["max_tokens"] = min(domain.max_tokens, max(most, 8 + domain.min_tokens))
    try:
        pinned = domain.having(**promises)
    except ValueError:
        return None
    return pinned if fitting_sizes(pinned, features) else None


_OF_THE_DOMAIN = ("block_size", "router")
