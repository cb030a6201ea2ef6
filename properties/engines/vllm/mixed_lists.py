"""DeepSeek V4: a row for each token of the slots in its window and of selected states, decodes first."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from cumae.oracle import Case, Inputs
from cumae.properties.dialects import VLLM, Output
from cumae.properties.engines.pages import having
from cumae.properties.engines.vllm.engine import ENGINE, NEW

Tensor = torch.Tensor
_OTHER, _LAYERS = 5, ("states", "window", "listed")
"""States have blocks with ids that are higher by this number; the kinds of layers."""


def _layer(case: Case) -> str:
    """Return the kind of the layer: selected states, a window alone, or states that decodes have as slots."""
    return _LAYERS[len(case.batch.requests) % 3]


def _ratio(case: Case) -> int:
    """Return the tokens of a state."""
    return 4 if len(case.batch.requests) % 2 else case.batch.block_size // 2


def _topk(case: Case) -> int:
    return 0 if _layer(case) == "window" else (6, 13)[len(case.batch.requests) % 2]


def num_decode_tokens(case: Case) -> int:
    """Return the tokens of the requests that the step has as decodes: none, all, or the first half."""
    count = len(case.batch.requests)
    stop = (0, count, count // 2, count // 2)[count % 4]
    return sum(request.query_len for request in case.batch.requests[:stop])


def _tokens(case: Case) -> list[tuple[int, int]]:
    """Return request and position of each token."""
    requests = enumerate(case.batch.requests)
    return [(b, p) for b, r in requests for p in range(r.context_len, r.seq_len)]


def _replay_starts(case: Case) -> list[int]:
    """Return the first position of each request whose keys the window's cache has."""
    lens = enumerate(request.context_len for request in case.batch.requests)
    return [(0, length, length // 2, max(length - 1, 0))[b % 4] for b, length in lens]


def _window(case: Case, b: int, p: int, first: int, gap: int) -> list[int]:
    """Return the slots of a window, in blocks with ``gap`` free rows behind each."""
    size, blocks = case.batch.block_size, case.batch.requests[b].block_ids
    positions = range(max(p - case.options.keys.window + 1, first), p + 1)
    return [blocks[key // size] * (size + gap) + key % size for key in positions]


def _selected(case: Case, t: int) -> list[int]:
    """Return the states that a token selects, not all of which need be there."""
    whole = (_tokens(case)[t][1] + 1) // _ratio(case)
    found = [(t + 3 * i) % whole for i in range(min(whole, _topk(case)))]
    return [-1 if (t + i) % 7 == 3 and _layer(case) == "states" else c for i, c in enumerate(found)]


def _states(case: Case, t: int, gap: int) -> list[int]:
    """Return the slots of these states, in blocks with ``gap`` free rows behind each."""
    size, blocks = case.batch.block_size // _ratio(case), case.batch.requests[_tokens(case)[t][0]].block_ids
    return [
        c if c < 0 else (blocks[c // size] + _OTHER) * (size + gap) + c % size for c in _selected(case, t)
    ]


def _gap(case: Case) -> int:
    return case.layout.num_spare_columns


def _filled(row: list[int], width: int, fill: int = -1) -> list[int]:
    return row + [fill] * (width - len(row))


def _columns(case: Case) -> int:
    return case.options.keys.window + -(-_topk(case) // 4) * 4


def _rows(replays: bool) -> Callable[[Any, Inputs], list[int]]:
    def expect(_: Any, inputs: Inputs) -> list[int]:
        case, found = inputs.case, list[int]()
        for t, (b, p) in enumerate(_tokens(case)):
            is_prefill = t >= num_decode_tokens(case)
            first = _replay_starts(case)[b] if replays and is_prefill else 0
            window = _filled(_window(case, b, p, first, _gap(case)), case.options.keys.window)
            found += _filled(window + _states(case, t, 2 * _gap(case)), _columns(case))
        return found

    return expect


def _lens(_: Any, inputs: Inputs) -> list[int]:
    """Return the columns of each row; decodes that are live count states that are there, prefills all."""
    case, found = inputs.case, list[int]()
    for t in range(len(_tokens(case))):
        states = _selected(case, t)
        if t < num_decode_tokens(case) and _layer(case) == "states":
            states = [c for c in states if c >= 0 and t % 3 != 1]
        found.append(case.options.keys.window + len(states))
    return found


def _table(rows: list[list[int]], width: int) -> Any:
    return np.array(rows, dtype=np.int32).reshape(len(rows), width)


def _stale(case: Case) -> Any:
    """Return the selected states of all tokens; entries that a prefill does not read hold one, too."""
    live, width = num_decode_tokens(case), _topk(case)
    rows = [_filled(_selected(case, t), width, -1 if t < live else 10**6) for t in range(len(_tokens(case)))]
    return _table(rows, width)


def _of_decodes(values: Callable[[Case, int], list[int]], width: Callable[[Case], int]) -> Any:
    return lambda case: _table(
        [_filled(values(case, t), width(case)) for t in range(num_decode_tokens(case))], width(case)
    )


def _state_table(case: Case) -> Any:
    width = max(len(request.block_ids) for request in case.batch.requests)
    rows = [[block + _OTHER for block in request.block_ids] for request in case.batch.requests]
    return _table([_filled(row, width) for row in rows], width)


_DIALECT = VLLM.extend(
    layer=_layer,
    ratio=_ratio,
    gap=_gap,
    decode_windows=_of_decodes(
        lambda case, t: _window(case, *_tokens(case)[t], 0, 0), lambda case: case.options.keys.window
    ),
    decode_states=_of_decodes(lambda case, t: _states(case, t, 0), _topk),
    decode_counts=lambda case: np.array(
        [len(_selected(case, t)) for t in range(num_decode_tokens(case))], dtype=np.int32
    ),
    selected=_stale,
    is_live=lambda case: np.array([t % 3 != 1 for t in range(len(_tokens(case)))]),
    state_table=_state_table,
    replay_starts=lambda case: np.array(_replay_starts(case), dtype=np.int32),
)


def _outputs(replays: bool) -> tuple[Output, ...]:
    return (
        Output(
            "mixed_slots",
            "int32",
            "place_of_mixed_slots",
            "the slots of the window, then of the selected states",
            follows="window_slots",
            shape=lambda case: (case.batch.num_tokens, _columns(case)),
            expect=_rows(replays),
        ),
        Output(
            "mixed_lens",
            "int32",
            "mixed_row",
            "the columns of the window, and the states of the token",
            follows="window_lens",
            shape=lambda case: (case.batch.num_tokens,),
            expect=_lens,
        ),
    )


_DOMAIN = NEW.having(
    window=(1, 2, 16, 128), block_sizes=(64, 128, 256), missing_blocks=False, max_tokens=128, max_requests=64
)


def _mixed(function: Any, replays: bool) -> Callable[..., dict[str, Tensor]]:
    def launch(
        layer: str,
        ratio: int,
        gap: int,
        decode_windows: Tensor,
        decode_states: Tensor,
        decode_counts: Tensor,
        selected: Tensor,
        is_live: Tensor,
        query_start_loc: Tensor,
        seq_lens: Tensor,
        token_to_req_indices: Tensor,
        block_table: Tensor,
        state_table: Tensor,
        block_size: int,
        window_size: int,
        replay_starts: Tensor,
    ) -> dict[str, Tensor]:
        live, states_only = len(decode_windows), layer == "states"
        prefills = selected[live:]
        topk = prefills.shape[1] if len(prefills) else 0
        decodes = None if layer == "window" else selected[:live] if states_only else decode_states
        own = {"decode_compressed_indices_are_local": True, "decode_is_valid_token": is_live[:live]}
        slots, lens = function(
            decode_windows,
            decodes,
            decode_counts if layer == "listed" else None,
            prefills[:, :topk],
            query_start_loc,
            seq_lens,
            token_to_req_indices,
            block_table,
            block_size,
            None if layer == "window" else state_table,
            block_size if layer == "window" else block_size // ratio,
            window_size,
            int(not replays) if layer == "window" else ratio,
            topk,
            swa_block_span=block_size + gap,
            compressed_block_span=block_size // ratio + 2 * gap,
            **(own if states_only else {}),
            **({"replay_start": replay_starts} if replays else {}),
        )
        return {"mixed_slots": slots, "mixed_lens": lens}

    return launch


@ENGINE.adapts(
    "vllm/models/deepseek_v4/common/ops/cache_utils.py",
    "build_flashinfer_mixed_sparse_indices",
    operation="window_slots",
    dialect=having(_DIALECT, "window_slots", *_outputs(False)),
    domain=_DOMAIN,
)
def mixed_lists(function: Any) -> Callable[..., dict[str, Tensor]]:
    """DeepSeek V4: rows without images and without blocks of drafts."""
    return _mixed(function, False)


@ENGINE.adapts(
    "vllm/models/deepseek_v41/common/ops/cache_utils.py",
    "build_flashinfer_mixed_sparse_indices",
    operation="window_slots",
    dialect=having(_DIALECT, "window_slots", *_outputs(True)),
    domain=_DOMAIN,
)
def mixed_lists_with_replay(function: Any) -> Callable[..., dict[str, Tensor]]:
    """DeepSeek V4.1: the same, where a prefill's window begins at the first position that was replayed."""
    return _mixed(function, True)
