"""Domains narrowed to one value of an option, or to the plain values of those that cost most."""

from collections.abc import Collection
from typing import Any

from cumae.oracle import BIAS_KINDS, FLOAT_DTYPES, LOGITS_KINDS, ROW_FORMATS
from cumae.properties.cases.domain import Domain

RouterShape = tuple[int, int, int, int]
"""Experts, groups, groups kept and experts selected."""
WIDE_ROW = (512, 64)
"""The latent row of released models."""
_PLAIN = {
    "row_format": "bf16",
    "logits_kind": "random",
    "draft_seed": 0,
    "selection_seed": 0,
    "bias_kind": "as_logits",
}


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
    """Return the domain with small rows, ordinary logits and seeds of 0, where it promises them."""
    values = dict(domain.values)
    for name, usual in _PLAIN.items():
        if usual in domain.among(name, (usual,)):
            values[name] = (usual,)
    return domain.having(values=values)


def with_rows(domain: Domain, row_format: str) -> Domain | None:
    """Return the domain with latent rows of one format, wide ones; None if the format is not promised."""
    if row_format not in domain.among("row_format", ROW_FORMATS):
        return None
    values = {**domain.values, "row_format": (row_format,)}
    return domain.having(values=values, latent_dims=domain.latent_dims or (WIDE_ROW,))


def with_router(
    domain: Domain, shape: RouterShape, logits: str, dtype: str | None, bias: str = "as_logits"
) -> Domain | None:
    """Return the domain with routers of one shape; None if the shape is not promised.

    Logits and biases are each of one kind, and both of one ``dtype``, if they may be.
    """
    if domain.router_shapes is not None and shape not in domain.router_shapes:
        return None
    values = dict(domain.values)
    if logits in domain.among("logits_kind", LOGITS_KINDS):
        values["logits_kind"] = (logits,)
    if bias in domain.among("bias_kind", BIAS_KINDS):
        values["bias_kind"] = (bias,)
    for name in ("logits_dtype", "bias_dtype"):
        if dtype in domain.among(name, FLOAT_DTYPES):
            values[name] = (dtype,)
    return domain.having(router_shapes=(shape,), values=values)
