"""The names that vLLM's cache groups beside the full one add: windows, compressed states, rings."""

from collections.abc import Callable
from typing import Any

from cumae.oracle import Case, Inputs
from cumae.properties.dialects.dialect import Input
from cumae.properties.dialects.held import Ints, ints
from cumae.properties.dialects.output import Output


def _host(value: Callable[[Case], int], *carries: str) -> Input:
    return Input(lambda inputs: value(inputs.case), carries)


def _held(dtype: str, values: Callable[[Inputs], list[Any]]) -> Input:
    def hold(inputs: Inputs) -> Ints:
        return ints(values(inputs), dtype, inputs.case.layout.garbage)

    return Input(hold)


def _is_valid_token(inputs: Inputs) -> list[int]:
    """Return 1 for the tokens of the step and 0 for padding; all of its tokens have a slot."""
    return [int(owner >= 0) for owner in inputs["token_to_request"]]


GROUP_INPUTS = {
    "is_valid_token": _held("bool", _is_valid_token),
    "replay_start": _held("int32", lambda inputs: [0] * inputs.case.num_requests_padded),
    "window_size": _host(lambda case: case.options.keys.window, "window"),
    "index_width": _host(lambda case: case.window_columns, "min_window_columns"),
    "capacity": _host(lambda case: case.options.ring.ring_capacity, "ring_capacity"),
}


GROUP_OUTPUTS = {
    "window_slots": (
        Output("swa_indices", follows="window_slots", is_captured=False),
        Output("swa_lens", follows="window_lens", is_captured=False),
    ),
    "compressed_slots": (Output("compressed_slot_mapping", follows="compressed_slots", is_captured=False),),
    "ring_slots": (Output("slot_mapping", follows="ring_slots", is_captured=False),),
}
