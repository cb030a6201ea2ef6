"""Domains narrowed to one value of an option, or to the plain values of those that cost most."""

from collections.abc import Collection
from typing import Any

from cumae.properties.cases.domain import Domain

_PLAIN = {"row_format": "bf16", "logits_kind": "random"}


def with_option(domain: Domain, name: str, size: Any, features: Collection[str]) -> Domain | None:
    """Return the domain with one value of an option; None if it is not promised or not valid.

    Of several ranks it is the last one's, if a rank is one of the ``features``, until another is chosen.
    """
    if name == "row":
        return domain.having(latent_dims=((size, 0),)) if domain.latent_dims is None else None
    if name == "head_dims":
        return domain.having(head_dims=(size,)) if domain.head_dims is None else None
    values = dict(domain.values)
    if name != "rank" and size not in values.get(name, (size,)):
        return None
    values |= {name: (size,), **({"rank": (size - 1,)} if name == "world" and "rank" in features else {})}
    try:
        return domain.having(values=values)
    except ValueError:
        return None


def plain(domain: Domain) -> Domain:
    """Return the domain with small rows and ordinary logits, where it does not promise others."""
    values = dict(domain.values)
    for name, usual in _PLAIN.items():
        if usual in domain.among(name, (usual,)):
            values[name] = (usual,)
    return domain.having(values=values)
