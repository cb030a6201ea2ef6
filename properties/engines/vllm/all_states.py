"""DeepSeek V4: lists of all compressed states that a token sees, where no indexer has to select any."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from cumae.oracle import UNTOUCHED, Case, Inputs
from cumae.properties.dialects import VLLM, Output
from cumae.properties.engines.pages import having
from cumae.properties.engines.vllm.engine import ENGINE, NEW
from cumae.properties.engines.vllm.mixed_lists import num_decode_tokens

Tensor = torch.Tensor
_ALIGNED = 128
"""Widths of the lists are multiples of this number."""


def _ratio(case: Case) -> int:
    return case.options.keys.compress_ratio


def _tokens(case: Case) -> list[tuple[int, int]]:
    """Return of each token its request and the number of states that it sees."""
    requests = enumerate(case.batch.requests)
    return [(b, (p + 1) // _ratio(case)) for b, r in requests for p in range(r.context_len, r.seq_len)]


def _width(case: Case) -> int:
    """Return the columns of a list, in some steps more than a tile of them."""
    most = max(request.seq_len for request in case.batch.requests) // _ratio(case)
    return max(-(-most // _ALIGNED), 1 + 8 * (case.layout.num_spare_columns % 2)) * _ALIGNED


def _is_live(t: int) -> bool:
    return t % 3 != 1


def _row(found: list[int], case: Case) -> list[Any]:
    """Return a row of a buffer that is wider than the lists."""
    return [*found, *[-1] * (_width(case) - len(found)), *[UNTOUCHED] * _ALIGNED]


def _decodes(_: Any, inputs: Inputs) -> list[Any]:
    """Return the slots of the states that each decode sees, in blocks of states."""
    case, found = inputs.case, list[Any]()
    size = case.batch.block_size // _ratio(case)
    for b, count in _tokens(case)[: num_decode_tokens(case)]:
        blocks = case.batch.requests[b].block_ids
        found += _row([blocks[c // size] * size + c % size for c in range(count)], case)
    return found


def _prefills(_: Any, inputs: Inputs) -> list[Any]:
    case, found = inputs.case, list[Any]()
    for _b, count in _tokens(case)[num_decode_tokens(case) :]:
        found += _row([*range(count)], case)
    return found


def _lens(_: Any, inputs: Inputs) -> list[int]:
    decodes = enumerate(_tokens(inputs.case)[: num_decode_tokens(inputs.case)])
    return [count if _is_live(t) else 0 for t, (_b, count) in decodes]


def _list(name: str, rule: str, shape: Callable[[Case], tuple[int, ...]], expect: Any) -> Output:
    axis = f"place_of_{name}"
    return Output(name, "int32", axis, rule, follows="compressed_slots", shape=shape, expect=expect)


@ENGINE.adapts(
    "vllm/models/deepseek_v4/sparse_mla.py",
    "build_c128a_topk_metadata",
    operation="compressed_slots",
    dialect=having(
        VLLM,
        "compressed_slots",
        _list(
            "slots_of_decodes",
            "the slots of all states of the token",
            lambda case: (num_decode_tokens(case), _width(case) + _ALIGNED),
            _decodes,
        ),
        _list(
            "lens_of_decodes",
            "how many these are, none for a token without a slot",
            lambda case: (num_decode_tokens(case),),
            _lens,
        ),
        _list(
            "states_of_prefills",
            "the numbers of all states of the token",
            lambda case: (case.batch.num_tokens - num_decode_tokens(case), _width(case) + _ALIGNED),
            _prefills,
        ),
        width=_width,
        live_slots=lambda case: np.array([t if _is_live(t) else -1 for t in range(len(_tokens(case)))]),
    ),
    domain=NEW.having(
        block_sizes=(256,), compress_ratio=(128,), missing_blocks=False, world=(1,), max_tokens=256
    ),
    current_platform=type("Platform", (), {"get_device_capability": staticmethod(lambda: None)}),
)
def states_of_c128a(function: Any) -> Callable[..., None]:
    """Slots for decodes, numbers for prefills, in buffers that are wider than the lists of the step."""

    def launch(
        positions: Tensor,
        compress_ratio: int,
        token_to_req_indices: Tensor,
        block_table: Tensor,
        block_size: int,
        live_slots: Tensor,
        width: int,
        slots_of_decodes: Tensor,
        lens_of_decodes: Tensor,
        states_of_prefills: Tensor,
    ) -> None:
        step = (positions, compress_ratio, len(lens_of_decodes), token_to_req_indices, block_table)
        outputs = (slots_of_decodes, lens_of_decodes, states_of_prefills)
        function(*step, block_size // compress_ratio, live_slots, *outputs, max_compressed_tokens=width)

    return launch


def _topk(case: Case) -> int:
    """Return the columns of a list, as many as the states of the longest request or more."""
    most = max(request.seq_len for request in case.batch.requests) // _ratio(case)
    return max(most, 1) + case.layout.num_spare_columns


def _all(_: Any, inputs: Inputs) -> list[int]:
    case, found = inputs.case, list[int]()
    for _b, count in _tokens(case):
        found += [*range(count), *[-1] * (_topk(case) - count)]
    return found


def _filled(kernel: Any) -> Callable[..., None]:
    def launch(positions: Tensor, compress_ratio: int, all_states: Tensor) -> None:
        count, width = all_states.shape
        upper = 1 << (width - 1).bit_length()
        kernel[(count,)](
            all_states, positions, TOP_K=width, COMPRESS_RATIO=compress_ratio, PADDED_TOP_K=upper
        )

    return launch


_ALL = having(
    VLLM,
    "compressed_slots",
    _list(
        "all_states",
        "the numbers of all states of the token",
        lambda case: (case.batch.num_tokens, _topk(case)),
        _all,
    ),
)
_SHORT = NEW.having(
    compress_ratio=(4, 128), missing_blocks=False, world=(1,), max_tokens=256, max_context_len=4096
)
_FILL = "_fill_short_context_topk_indices"


@ENGINE.adapts(
    "vllm/models/deepseek_v4/attention.py", _FILL, operation="compressed_slots", dialect=_ALL, domain=_SHORT
)
def all_states(kernel: Any) -> Callable[..., None]:
    """DeepSeek V4: every state is selected."""
    return _filled(kernel)


@ENGINE.adapts(
    "vllm/models/deepseek_v41/attention.py", _FILL, operation="compressed_slots", dialect=_ALL, domain=_SHORT
)
def all_states_of_v41(kernel: Any) -> Callable[..., None]:
    """DeepSeek V4.1: the same."""
    return _filled(kernel)
