"""Inputs of a case: the logits that its tokens bring to the router, and the bias of its experts."""

from typing import Any

from cumae.oracle.model.case import Case
from cumae.oracle.model.marks import GARBAGE
from cumae.oracle.router_logits import router_bias, router_logits


def logits(case: Case) -> list[list[Any]]:
    """Return each token's logits; they depend on its slot, so they follow the token into related cases."""
    options, size = case.options, case.batch.tokens_per_block
    shape = (options.router.num_experts, options.router.logits_dtype)
    rows: list[list[Any]] = []
    for request in case.batch.requests:
        for position in range(request.context_len, request.seq_len):
            place = request.block_ids[position // size] * size + position % size
            rows.append(router_logits(options.router.logits_kind, options.router.logits_seed, place, *shape))
    return rows + [[GARBAGE] * options.router.num_experts] * case.layout.num_padding_tokens


def bias(case: Case) -> list[float]:
    """Return the bias of each expert."""
    options = case.options
    return router_bias(
        options.router.logits_kind,
        options.router.logits_seed,
        options.router.num_experts,
        options.router.bias_dtype,
        options.router.bias_kind,
    )
