"""The promises that would leave a case out: a function that is never called so need not be wrong."""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from cumae.oracle import Case
from cumae.oracle.model.router import Router
from cumae.oracle.router_logits import LOGITS_KINDS
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.features import PROMISED


class _Narrower(NamedTuple):
    """A promise that a real function may need: its value, or the value for a case.

    ``if_odd``: the cases that make one think of it. ``if_enough``: whether it is told only where it leaves
    out every case on which a function failed, and no other promise of the same name does. ``if_alone``: and
    no other promise at all. ``of``: what the function must see for it, be made for, or do; "" if it may help
    any.
    """

    name: str
    value: Any | Callable[[Case], Any]
    if_odd: Callable[[Case], bool] = lambda case: True
    if_enough: bool = False
    if_alone: bool = False
    of: str = ""


ODD_LOGITS = (
    ("nan_and_inf",),
    ("huge_and_tiny",),
    ("negative",),
    ("low_biases",),
    ("negative", "low_biases"),
    ("large_biases",),
    ("ties",),
    ("equal",),
)
"""Kinds of logits that a router may not be made for; those of choices below 0 alone and together."""
SMALL_ID = 2**16 - 1
"""A largest block id that a function may promise."""
SIZES = ((16, 32, 64, 128, 256), (64,), (128,), (16,))
"""Block sizes of engines, and those that a function may be made for alone."""
REFUSES = "refuses"
"""What a function does that raises: it may be made for one kind of request. A wrong value tells of none."""
LONG = 4096
"""Most cached tokens of a request that nobody calls long."""


def _longest(case: Case) -> int:
    """Return the most cached tokens of a case's requests."""
    return max((request.context_len for request in case.batch.requests), default=0)


def _but(odd: Sequence[str]) -> tuple[str, ...]:
    """Return the kinds of logits but these."""
    return tuple(kind for kind in LOGITS_KINDS if kind not in odd)


def _is_power_of_two(number: int) -> bool:
    return number & (number - 1) == 0


def _is_odd_router(router: Router) -> bool:
    """Whether a number of experts is no power of two, or a single weight is made 1: many gates keep it."""
    if router.top_k == 1 and router.renormalize:
        return True
    return not (_is_power_of_two(router.num_experts) and _is_power_of_two(router.top_k))


_NARROWER = (
    _Narrower("min_requests", 1),
    _Narrower("min_tokens", 1),
    _Narrower("empty_requests", False),
    _Narrower("order", "decodes_first"),
    _Narrower("order", "prefills_first"),
    _Narrower("padded_together", True),
    _Narrower("padding", "none"),
    _Narrower("rowless_requests", False),
    _Narrower("missing_blocks", False),
    _Narrower("strided", False),
    _Narrower("index_dtype", ("int32",)),
    _Narrower("index_dtype", ("int32", "int64")),
    _Narrower("interleave", (1,), if_odd=lambda case: case.options.parallel.interleave > 1),
    _Narrower("world", (1,)),
    _Narrower("large_slots", False),
    _Narrower("max_block_id", SMALL_ID),
    _Narrower(
        "max_context_len",
        lambda case: 2 ** ((_longest(case) - 1).bit_length() - 1),
        if_odd=lambda case: _longest(case) > LONG,
        if_enough=True,
    ),
    *(
        _Narrower(
            f"{kind}_scale_thousandths",
            (1_000, 500, 250, 125),
            if_odd=lambda case: case.options.heads.head_format == "fp8",
        )
        for kind in ("key", "value")
    ),
    _Narrower("select_beyond", (False,)),
    _Narrower("selects_fewer", (False,)),
    _Narrower("renormalize", (True,)),
    _Narrower("scaling_thousandths", (1_000,)),
    _Narrower("logits_dtype", ("fp32",)),
    *(_Narrower("logits_kind", _but(odd), if_enough="nan_and_inf" not in odd) for odd in ODD_LOGITS),
    _Narrower(
        "bias_kind",
        ("as_logits",),
        if_odd=lambda case: case.options.router.bias_kind != "as_logits",
        if_enough=True,
    ),
    _Narrower("page_slack", (0,)),
    _Narrower("key_slack", (0,)),
    _Narrower(
        "head_dims",
        ((64, 64), (128, 128)),
        if_odd=lambda case: case.options.heads.head_dim != case.options.heads.value_dim,
    ),
    _Narrower(
        "num_heads",
        (1, 2, 4, 8, 16, 32, 64, 128),
        if_odd=lambda case: not _is_power_of_two(case.options.heads.num_heads),
    ),
    _Narrower(
        "router_shapes",
        ((8, 2, 1, 2), (32, 1, 1, 4), (128, 1, 1, 8), (256, 8, 4, 8)),
        if_odd=lambda case: _is_odd_router(case.options.router),
    ),
    _Narrower(
        "block_sizes",
        tuple(2**k for k in range(10)),
        if_odd=lambda case: not _is_power_of_two(case.batch.block_size),
        of="block_size",
    ),
    _Narrower(
        "kernel_block_size", (None,), if_odd=lambda case: case.kernel_block_size < case.batch.block_size
    ),
    _Narrower("num_spare_tokens", (0,)),
    _Narrower("latent_dims", ((512, 64),), if_odd=lambda case: case.options.rows.qk_rope_head_dim == 0),
    _Narrower(
        "min_window_columns",
        (1,),
        if_odd=lambda case: case.window_columns > max(case.options.keys.window, 1),
        of="windows",
    ),
    _Narrower(
        "window",
        (1, 2, 4, 16, 128),
        if_odd=lambda case: case.options.keys.window == 0,
        if_enough=True,
        of="windows",
    ),
    *(
        _Narrower(name, value, if_enough=True, if_alone=True, of=REFUSES)
        for name, value in (
            ("max_query_len", 1),
            ("phases", ("decode",)),
            ("uniform_decodes", True),
            ("max_context_len", 0),
        )
    ),
    _Narrower("max_context_len", 0, if_enough=True, if_alone=True, of="whole_sequences"),
    *(
        _Narrower(
            "block_sizes",
            sizes,
            if_odd=lambda case: case.batch.block_size not in SIZES[0],
            if_enough=True,
            if_alone=True,
            of="block_size",
        )
        for sizes in SIZES
    ),
    _Narrower("whole_prefixes", True, if_enough=True, if_alone=True),  # it leaves out most later chunks
)
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


def _leaving_out(
    case: Case, domain: Domain, seen: Collection[str]
) -> Iterator[tuple[_Narrower, Any, Domain]]:
    """Yield the promises, each of which leaves a case out, their values, and the domains that have them."""
    for promise in _NARROWER:
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


def _value(promise: _Narrower, case: Case) -> Any:
    return promise.value(case) if callable(promise.value) else promise.value


def _promised(domain: Domain, name: str) -> Any:
    """Return what a domain promises of a field; options that it does not name are None."""
    return domain.values.get(name, getattr(domain, name, None))
