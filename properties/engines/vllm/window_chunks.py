"""Dots 3: prefills in chunks, each of whole requests whose windows fit the workspace."""

from collections.abc import Callable
from itertools import accumulate
from typing import Any

import torch

from cumae.oracle import Case, Inputs
from cumae.properties.dialects import VLLM, Output
from cumae.properties.engines.pages import having
from cumae.properties.engines.vllm.engine import ENGINE, NEW

Tensor = torch.Tensor


def _key_lens(case: Case) -> list[int]:
    """Return the keys that each request gathers: the windows of all its new tokens."""
    return [min(r.seq_len, r.query_len + case.options.keys.window - 1) for r in case.batch.requests]


def _workspace(case: Case) -> int:
    """Return the rows of the workspace: those of the longest request, or room for several."""
    lens = _key_lens(case)
    return max(lens) + (0, sum(lens) // 3, sum(lens))[len(lens) % 3]


def _chunks(case: Case) -> list[list[int]]:
    """Return the requests of each chunk: a request that does not fit begins the next chunk."""
    found, room = [list[int]()], _workspace(case)
    for b, length in enumerate(_key_lens(case)):
        if length > room:
            found.append([])
            room = _workspace(case)
        found[-1].append(b)
        room -= length
    return found


def _sums(lens: list[int], case: Case) -> list[int]:
    """Return the running sum of lengths in each chunk, each with a leading 0."""
    return [total for chunk in _chunks(case) for total in accumulate((lens[b] for b in chunk), initial=0)]


def _query_lens(case: Case) -> list[int]:
    return [request.query_len for request in case.batch.requests]


def _owners(case: Case) -> list[int]:
    """Return the request of each gathered key, counted within its chunk."""
    lens = _key_lens(case)
    return [i for chunk in _chunks(case) for i, b in enumerate(chunk) for _ in range(lens[b])]


def _sizes(case: Case) -> list[int]:
    """Return of each chunk its rows of the step, its keys, its longest query and its most keys."""
    keys, new, found = _key_lens(case), _query_lens(case), list[int]()
    for chunk in _chunks(case):
        rows = [sum(new[: chunk[0]]), sum(new[: chunk[-1] + 1])]
        found += [*rows, sum(keys[b] for b in chunk)]
        found += [max(new[b] for b in chunk), max(keys[b] for b in chunk)]
    return found


def _of_chunks(name: str, rule: str, values: Callable[[Case], list[int]]) -> Output:
    def expect(_: Any, inputs: Inputs) -> list[int]:
        return values(inputs.case)

    shape = lambda case: (len(values(case)),)  # noqa: E731
    return Output(name, "int32", f"place_of_{name}", rule, follows="window_lens", shape=shape, expect=expect)


@ENGINE.adapts(
    "vllm/models/dots3_note/nvidia/attention.py",
    "_build_sliding_window_metadata",
    operation="window_slots",
    dialect=having(
        VLLM,
        "window_slots",
        _of_chunks(
            "first_keys",
            "the first position that the request gathers",
            lambda case: [
                request.seq_len - length
                for request, length in zip(case.batch.requests, _key_lens(case), strict=True)
            ],
        ),
        _of_chunks("query_starts", "new tokens", lambda case: _sums(_query_lens(case), case)),
        _of_chunks("key_starts", "gathered keys", lambda case: _sums(_key_lens(case), case)),
        _of_chunks("owners", "the request of the key", _owners),
        _of_chunks(
            "requests_of_chunks",
            "the chunk's first request, and the first behind it",
            lambda case: [place for chunk in _chunks(case) for place in (chunk[0], chunk[-1] + 1)],
        ),
        _of_chunks("sizes", "rows, keys, the longest query, the most keys", _sizes),
        workspace=_workspace,
    ),
    domain=NEW.having(
        phases=("prefill",), empty_requests=False, window=(1, 2, 3, 16, 127, 128, 513), missing_blocks=False
    ),
    PIN_MEMORY=False,
    async_tensor_h2d=lambda tensor, device: tensor.to(device),
)
def window_chunks(function: Any) -> Callable[..., dict[str, Tensor]]:
    """Sums, owners and sizes of the chunks, each list of all chunks in order."""

    def launch(
        query_start_loc_cpu: Tensor, seq_lens_cpu: Tensor, window_size: int, workspace: int
    ) -> dict[str, Tensor]:
        chunks = function(
            seq_lens_cpu=seq_lens_cpu,
            query_start_loc_cpu=query_start_loc_cpu,
            sliding_window=window_size,
            workspace=None,
            workspace_size=workspace,
            device=seq_lens_cpu.device,
        ).chunks
        numbers = {
            "requests_of_chunks": [(c.req_start, c.req_end) for c in chunks],
            "sizes": [
                (c.query_start, c.query_end, c.num_kv_tokens, c.max_seq_len_q, c.max_seq_len_k)
                for c in chunks
            ],
        }
        lists = {
            "first_keys": [c.starts for c in chunks],
            "query_starts": [c.cu_seq_lens_q for c in chunks],
            "key_starts": [c.cu_seq_lens_k for c in chunks],
            "owners": [c.token_to_seq for c in chunks],
        }
        return {
            **{name: torch.tensor(rows, dtype=torch.int32).flatten() for name, rows in numbers.items()},
            **{name: torch.cat(parts) for name, parts in lists.items()},
        }

    return launch
