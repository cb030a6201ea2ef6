"""The promises that would leave a case out: a function that is never called so need not be wrong."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from cumae.oracle import Case
from cumae.oracle.router_logits import LOGITS_KINDS
from cumae.properties.cases.domain import Domain

_NARROWER: tuple[Mapping[str, Any], ...] = (
    {"min_requests": 1},
    {"min_tokens": 1},
    {"empty_requests": False},
    {"order": "decodes_first"},
    {"order": "prefills_first"},
    {"padded_together": True},
    {"padding": "none"},
    {"rowless_requests": False},
    {"missing_blocks": False},
    {"whole_prefixes": True},
    {"strided": False},
    {"index_dtype": ("int32",)},
    {"index_dtype": ("int32", "int64")},
    {"world": (1,)},
    {"max_block_id": 65_535},
    {"logits_dtype": ("fp32",)},
    {"logits_kind": tuple(kind for kind in LOGITS_KINDS if kind != "nan_and_inf")},
    {"page_slack": (0,)},
    {"key_slack": (0,)},
    {"head_dims": ((64, 64), (128, 128))},
    {"latent_dims": ((512, 64),)},
)
"""Promises that a real function may need."""
_ODD: Mapping[str, Callable[[Case], bool]] = {
    "head_dims": lambda case: case.options.heads.head_dim != case.options.heads.value_dim,
    "latent_dims": lambda case: case.options.rows.qk_rope_head_dim == 0,
}
"""Of a promise that leaves nearly every case out: the cases that make one think of it."""
_WIDEST = Domain()


def left_out_by(case: Case, domain: Domain, failed: Sequence[Case] = ()) -> str:
    """Return the promises, each of which leaves out a case of a domain, as text; "" if none does.

    ``failed``: other cases on which the function failed. Promises that leave them all out come first.

    >>> from cumae.oracle import Batch, Layout, Request
    >>> padded = Case(Batch((Request(0, 1, (0,)),), 16), Layout(num_padding_tokens=1))
    >>> left_out_by(padded, Domain())
    "Domain(padded_together=True), Domain(padding='none')"
    >>> left_out_by(Case(Batch((), 16)), Domain())
    'Domain(min_requests=1), Domain(min_tokens=1)'
    >>> left_out_by(Case(Batch((), 16)), Domain(), [padded])
    'Domain(min_requests=1), Domain(min_tokens=1), which is not enough: other cases fail, too'
    """
    all_out, this_out = list[str](), list[str]()
    for told, narrower in _leaving_out(case, domain):
        others_too = all(narrower.why_not(other) is not None for other in failed)
        if others_too:
            all_out.append(told)
        elif domain.whole_prefixes or not narrower.whole_prefixes:  # it leaves out most later chunks
            this_out.append(told)
    told = ", ".join(all_out)
    if this_out:
        told += f"{'; or ' if told else ''}{', '.join(this_out)}, which is not enough: other cases fail, too"
    return told


def is_kept_without(case: Case, other: Case, domain: Domain) -> bool:
    """Whether a promise that leaves a case of a domain out keeps the other."""
    return any(narrower.why_not(other) is None for _, narrower in _leaving_out(case, domain))


def num_leaving_out(case: Case, domain: Domain) -> int:
    """Return how many promises leave a case of a domain out; none leaves a plain one out."""
    return sum(1 for _ in _leaving_out(case, domain))


def _leaving_out(case: Case, domain: Domain) -> Iterator[tuple[str, Domain]]:
    """Yield the promises, each of which leaves a case out, as text and as a domain."""
    for promise in _NARROWER:
        ((name, value),) = promise.items()
        if _promised(domain, name) != _promised(_WIDEST, name):
            continue  # the function has promised something else
        if name in _ODD and not _ODD[name](case):
            continue
        try:
            narrower = domain.having(**promise)
        except ValueError:  # it contradicts another promise
            continue
        if narrower.why_not(case) is not None:
            yield f"Domain({name}={value!r})", narrower


def _promised(domain: Domain, name: str) -> Any:
    """Return what a domain promises of a field; options that it does not name are None."""
    return domain.values.get(name, getattr(domain, name, None))
