"""An oracle's answer to a case and the simulation's, in the same plain values."""

from collections.abc import Callable
from typing import Any

from cumae import oracle
from cumae.oracle import UNTOUCHED, Case, Inputs
from cumae.properties.tests import simulation
from cumae.properties.tests.simulation import Answer

Oracle = Callable[..., Any]

ORACLES: dict[str, Oracle] = {
    "sequence_layout": oracle.sequence_layout,
    "position_ids": oracle.position_ids,
    "slot_mapping": oracle.slot_mapping,
    "causal_windows": oracle.causal_windows,
    "prefix_interleave": oracle.prefix_interleave,
}


def oracle_answer(function: Oracle, case: Case) -> Answer:
    """Return the outputs by name, ``"untouched"`` for rows that keep what they held."""
    outputs = Inputs(case).call(function)._asdict()
    return {
        name: ["untouched" if value is UNTOUCHED else value for value in values]
        for name, values in outputs.items()
    }


def simulated_answer(operation: str, case: Case) -> Answer:
    """Return what the token-by-token simulation says."""
    return _SIMULATIONS[operation](case)


def _sequence_layout(case: Case) -> Answer:
    return simulation.sequence_layout(
        case.batch,
        num_padding_tokens=case.layout.num_padding_tokens,
        num_padding_requests=case.layout.num_padding_requests,
        key_scope=case.options.key_scope,
        compress_ratio=case.options.compress_ratio,
        token_padding=case.options.token_padding,
        dummy_request=case.options.dummy_request,
    )


def _position_ids(case: Case) -> Answer:
    return simulation.position_ids(case.batch, num_padding_tokens=case.layout.num_padding_tokens)


def _slot_mapping(case: Case) -> Answer:
    return simulation.slot_mapping(
        case.batch,
        num_unused_slots=case.layout.num_padding_tokens + case.layout.num_padding_slots,
        rank=case.options.rank,
        interleave=case.options.interleave,
        row_index=case.layout.row_index,
    )


def _causal_windows(case: Case) -> Answer:
    return simulation.causal_windows(
        case.batch,
        num_padding_tokens=case.layout.num_padding_tokens,
        key_scope=case.options.key_scope,
        compress_ratio=case.options.compress_ratio,
        window=case.options.window,
        rank=case.options.rank,
        interleave=case.options.interleave,
    )


def _prefix_interleave(case: Case) -> Answer:
    kept = [r for r in case.batch.requests if case.options.key_scope == "all" or r.phase == "prefill"]
    num_keys = sum(r.context_len + r.query_len for r in kept)
    return simulation.prefix_interleave(
        case.batch,
        capacity=max(0, num_keys + case.layout.key_slack),
        key_scope=case.options.key_scope,
    )


_SIMULATIONS: dict[str, Callable[[Case], Answer]] = {
    "sequence_layout": _sequence_layout,
    "position_ids": _position_ids,
    "slot_mapping": _slot_mapping,
    "causal_windows": _causal_windows,
    "prefix_interleave": _prefix_interleave,
}
