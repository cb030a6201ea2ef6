"""One promise of a domain: a check of its values, and a description of cases that go beyond it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from cumae.oracle import Case, Request
from cumae.oracle.grouped_topk import check_router_shape
from cumae.oracle.model.rules import INT32_MAX, require, require_choice, require_int

Beyond = Callable[[Any, Case], str | None]


@dataclass(frozen=True, slots=True)
class Promise:
    """A promise. ``check``: raises ``ValueError`` for a bad value, with the name it is given.

    ``beyond``: returns a description of how a case goes beyond a value, None if it does not; None if no case
    goes beyond any. ``never``: values that no case goes beyond.
    """

    check: Callable[[str, Any], None]
    beyond: Beyond | None = None
    never: tuple[Any, ...] = ()


def whole(low: int, high: int = INT32_MAX) -> Callable[[str, Any], None]:
    """Return a check for an integer of ``[low, high]``."""
    return lambda name, value: require_int(name, value, low, high)


def choice(known: Sequence[object]) -> Callable[[str, Any], None]:
    """Return a check for one of the known values."""
    return lambda name, value: require_choice(name, value, known)


def several(check: Callable[[str, Any], None], *, or_none: bool = False) -> Callable[[str, Any], None]:
    """Return a check for a non-empty tuple in which every entry passes ``check``."""
    rule = "be None or a non-empty tuple" if or_none else "be a non-empty tuple"

    def check_all(name: str, values: Any) -> None:
        if or_none and values is None:
            return
        require(isinstance(values, tuple) and bool(values), name, values, rule)
        for i, value in enumerate(values):
            check(f"{name}[{i}]", value)

    return check_all


def names_of(what: str) -> Callable[[str, Any], None]:
    """Return a check for a tuple of names."""

    def check_all(name: str, values: Any) -> None:
        names = isinstance(values, tuple) and all(isinstance(value, str) for value in values)
        require(names, name, values, f"be a tuple of {what} names")

    return check_all


def check_latent_dims(name: str, dims: Any) -> None:
    """Require the two widths of a latent row."""
    pair = isinstance(dims, tuple) and len(dims) == 2
    require(pair, name, dims, "be a pair of kv_lora_rank and qk_rope_head_dim")
    require_int(f"{name}: kv_lora_rank", dims[0], 1, 2**16)
    require_int(f"{name}: qk_rope_head_dim", dims[1], 0, 2**16)


def check_head_dims(name: str, dims: Any) -> None:
    """Require the widths of a key and of a value."""
    pair = isinstance(dims, tuple) and len(dims) == 2
    require(pair, name, dims, "be a pair of head_dim and value_dim")
    require_int(f"{name}: head_dim", dims[0], 1, 2**14)
    require_int(f"{name}: value_dim", dims[1], 1, 2**14)


def check_router(name: str, shape: Any) -> None:
    """Require the four sizes of a router that has them."""
    four = isinstance(shape, tuple) and len(shape) == 4
    require(four, name, shape, "be experts, groups, groups kept and experts selected")
    check_router_shape(*shape)


def of_requests(breaks: Callable[[Any, Request, Case], str | None]) -> Beyond:
    """Return a function that describes the first request beyond a promise, with its number."""

    def beyond(value: Any, case: Case) -> str | None:
        for b, request in enumerate(case.batch.requests):
            if (told := breaks(value, request, case)) is not None:
                return f"{told}, request {b}"
        return None

    return beyond


def limit(name: str) -> Beyond:
    """Return a function that describes the first request of which a length exceeds a promise."""
    length_of = attrgetter(name)

    def beyond(most: int, case: Case) -> str | None:
        lengths = list(map(length_of, case.batch.requests))
        if max(lengths, default=0) <= most:
            return None
        return next(f"{name} {length}, request {b}" for b, length in enumerate(lengths) if length > most)

    return beyond
