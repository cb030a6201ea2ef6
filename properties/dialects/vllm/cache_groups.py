"""The names that vLLM's cache groups beside the full one add: windows, compressed states, rings."""

from cumae.oracle import Inputs
from cumae.properties.dialects.dialect import held_ints, host_number
from cumae.properties.dialects.output import Output


def _is_valid_token(inputs: Inputs) -> list[int]:
    """Return 1 for the tokens of the step and 0 for padding; all of its tokens have a slot."""
    return [int(owner >= 0) for owner in inputs["token_to_request"]]


GROUP_INPUTS = {
    "is_valid_token": held_ints("bool", _is_valid_token),
    "replay_start": held_ints("int32", lambda inputs: [0] * inputs.case.num_requests_padded),
    "window_size": host_number(lambda case: case.options.keys.window, "window"),
    "index_width": host_number(lambda case: case.window_columns, "min_window_columns"),
    "capacity": host_number(lambda case: case.options.ring.ring_capacity, "ring_capacity"),
}


GROUP_OUTPUTS = {
    "window_slots": (
        Output("swa_indices", follows="window_slots", is_captured=False),
        Output("swa_lens", follows="window_lens", is_captured=False),
    ),
    "compressed_slots": (Output("compressed_slot_mapping", follows="compressed_slots", is_captured=False),),
    "ring_slots": (Output("slot_mapping", follows="ring_slots", is_captured=False),),
}
