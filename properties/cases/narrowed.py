"""Domains narrowed to one value of an option, or to ordinary values, for cases of chosen sizes."""

from cumae.properties.cases.domain import Domain

_PLAIN = {"row_format": "bf16", "logits_kind": "random"}


def with_option(domain: Domain, name: str, size: int) -> Domain | None:
    """Return the domain with one value of an option; None if it is not promised or not valid."""
    if name == "row":
        return domain.having(latent_dims=((size, 0),)) if domain.latent_dims is None else None
    values = dict(domain.values)
    if size not in values.get(name, (size,)):
        return None
    values |= {name: (size,), **({"rank": (size - 1,)} if name == "world" else {})}
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
