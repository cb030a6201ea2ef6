"""The promises that would leave a case out: a function that is never called so need not be wrong."""

from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from typing import Any

from cumae.oracle import Case
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.features import PROMISED
from cumae.properties.cases.narrower import NARROWER, Narrower

_OF_OPTIONS = {name for name, row in PROMISED.items() if row.record == "options"}
_OF_OPTIONS |= {"head_dims", "latent_dims", "router_shapes"}
"""Promises of what a report shows among the options of a case: these are told first."""
_WIDEST = Domain()
MOST = frozenset({"block_size"})
"""Layout that every kernel that reads blocks sees."""


def left_out_by(
    case: Case,
    domain: Domain,
    failed: Sequence[Case] = (),
    seen: Collection[str] = MOST,
    *,
    if_enough: bool = False,
) -> str:
    """Return the promises, each of which leaves out a case of a domain, as text; "" if none does.

    ``failed``: other cases on which the function failed. Promises that leave them all out come first.
    ``seen``: what the function sees or may be made for, here and below. ``if_enough``: no others.

    >>> from cumae.oracle import Batch, Layout, Request
    >>> padded = Case(Batch((Request(0, 1, (0,)),), 16), Layout(num_padding_tokens=1))
    >>> left_out_by(padded, Domain())
    "Domain(padded_together=True) or Domain(padding='none')"
    >>> left_out_by(Case(Batch((), 16)), Domain())
    'Domain(min_requests=1) or Domain(min_tokens=1)'
    >>> left_out_by(Case(Batch((), 16)), Domain(), [padded])
    'Domain(min_requests=1) or Domain(min_tokens=1), which is not enough: other cases fail, too'
    """
    all_out, this_out = dict[str, bool](), list[str]()
    names = set[str]()
    for promise, value, narrower in _leaving_out(case, domain, seen):
        told = f"Domain({promise.name}={value!r})"
        if all(narrower.why_not(other) is not None for other in failed):
            another = (promise.if_enough and promise.name in names) or (promise.if_alone and all_out)
            if not another:
                all_out[told] = promise.name not in _OF_OPTIONS
            names.add(promise.name)
        elif not (promise.if_enough or if_enough):
            this_out.append(told)
    parts = [one_of(sorted(all_out, key=lambda told: all_out[told]))] if all_out else []
    if this_out:
        parts.append(f"{one_of(this_out)}, which is not enough: other cases fail, too")
    return "; or ".join(parts)


def one_of(choices: Sequence[str]) -> str:
    """Return alternatives as text: "", "a", "a or b", "a, b or c"."""
    *others, last = choices or ("",)
    return f"{', '.join(others)} or {last}" if others else last


def is_kept_without(case: Case, other: Case, domain: Domain, seen: Collection[str] = MOST) -> bool:
    """Whether a promise that leaves a case of a domain out keeps the other."""
    return any(narrower.why_not(other) is None for *_, narrower in _leaving_out(case, domain, seen))


def domains_without(
    case: Case, domain: Domain, failed: Sequence[Case] = (), seen: Collection[str] = MOST
) -> Iterator[Domain]:
    """Yield the domains of the promises, each of which leaves a case of a domain out.

    Promises that are told only where they leave out all of ``failed`` are left out if they do not.
    """
    for promise, _, narrower in _leaving_out(case, domain, seen):
        if not promise.if_enough or all(narrower.why_not(other) is not None for other in failed):
            yield narrower


def num_leaving_out(case: Case, domain: Domain, seen: Collection[str] = MOST) -> int:
    """Return how many promises leave a case of a domain out; none leaves a plain one out."""
    return sum(1 for _ in _leaving_out(case, domain, seen))


def leaves_out(domain: Domain, name: str, value: Any, case: Case) -> bool:
    """Whether a domain holds a case, and would not if it promised a value: False if it cannot promise it."""
    narrower = _having(domain, name, value)
    return narrower is not None and domain.why_not(case) is None and narrower.why_not(case) is not None


def _leaving_out(case: Case, domain: Domain, seen: Collection[str]) -> Iterator[tuple[Narrower, Any, Domain]]:
    """Yield the promises, each of which leaves a case out, their values, and the domains that have them."""
    for promise in NARROWER:
        if (promise.of and promise.of not in seen) or not promise.if_odd(case):
            continue
        own, value = _promised(domain, promise.name), _value(promise, case)
        if own != _promised(_WIDEST, promise.name):  # the function has promised something else
            if not isinstance(own, tuple) or not isinstance(value, tuple):
                continue
            value = tuple(one for one in own if one in value)
        narrower = _having(domain, promise.name, value)
        if narrower is not None and narrower.why_not(case) is not None:
            yield promise, value, narrower


@lru_cache(maxsize=4096)
def _having(domain: Domain, name: str, value: Any) -> Domain | None:
    """Return the domain with a promise, made once; None if it contradicts another, or is empty."""
    try:
        return domain.having(**{name: value})
    except ValueError:
        return None


def _value(promise: Narrower, case: Case) -> Any:
    return promise.value(case) if callable(promise.value) else promise.value


def _promised(domain: Domain, name: str) -> Any:
    """Return what a domain promises of a field; options that it does not name are None."""
    return domain.values.get(name, getattr(domain, name, None))
