"""Lists of a rank of context parallelism: its slots, its rows among gathered keys, its new tokens."""

from collections.abc import Callable
from itertools import accumulate, pairwise
from typing import Any

import torch

from cumae.oracle import Case, Inputs, local_len
from cumae.properties.dialects import CUMAE, Input, Output
from cumae.properties.dialects.held import ints
from cumae.properties.engines.arrays import int32
from cumae.properties.engines.pages import having
from cumae.properties.engines.sglang.engine import ENGINE, STEPS
from cumae.properties.engines.sglang.listed_slots import RANKS

Tensor = torch.Tensor
_DCP = "sglang/kernels/ops/attention/dcp_kernels.py"
_UNPADDED = STEPS.having(padding="none")
_WORLDS = (1, 2, 3, 4, 8)


def _world(case: Case) -> tuple[int, int]:
    """Return ranks and rank, which follow from the case: the operation has none of its own here."""
    count = len(case.batch.requests) + case.batch.num_tokens
    world = _WORLDS[count % len(_WORLDS)]
    return world, count // 5 % world


def _ranks_slots(case: Case) -> list[list[int]]:
    """Return the slot of each position that the rank holds, in pages of ``block_size`` of its slots."""
    world, rank = _world(case)
    size, found = case.batch.block_size, list[list[int]]()
    for request in case.batch.requests:
        slots = [request.block_ids[p // size] * size + p % size for p in range(request.seq_len)]
        found.append([slots[p] for p in range(rank, request.seq_len, world)])
    return found


def _width(case: Case) -> int:
    return max(1, *map(len, _ranks_slots(case)))


def _queries(case: Case) -> int:
    return 1 + len(case.batch.requests) % 3


def _rectangle(inputs: Inputs) -> Any:
    """Return the rank's slots of each request, in as many rows as it has queries; other rows hold others."""
    case, rows = inputs.case, list[list[int]]()
    for slots in _ranks_slots(case):
        filled = slots + [-5] * (_width(case) - len(slots))
        rows += [filled] * _queries(case)
    return ints(rows, "int32", case.layout.garbage, width=_width(case))


def _compact(_: Any, inputs: Inputs) -> list[int]:
    return [slot for row in _ranks_slots(inputs.case) for slot in row or [0]]


@ENGINE.adapts(
    _DCP,
    "compact_dcp_verify_token_table_to_ragged",
    operation="kv_indices",
    dialect=having(
        CUMAE,
        "kv_indices",
        Output(
            "ragged_slots",
            "int32",
            "ragged_slot",
            "the slots of the rank, 0 for a request of which it holds none",
            follows="kv_indices",
            shape=lambda case: (sum(max(len(row), 1) for row in _ranks_slots(case)),),
            expect=_compact,
        ),
        rectangle=Input(_rectangle),
        held_lens=int32(lambda case: [len(row) for row in _ranks_slots(case)]),
        ragged_starts=int32(lambda case: [0, *accumulate(max(len(row), 1) for row in _ranks_slots(case))]),
        num_queries=_queries,
    ),
    domain=RANKS,
)
def verify_slots_of_rank(kernel: Any) -> Callable[..., None]:
    """The rank's slots of a verify step, from a row for each query; an empty request keeps one entry."""

    def launch(
        rectangle: Tensor, held_lens: Tensor, ragged_starts: Tensor, num_queries: int, ragged_slots: Tensor
    ) -> None:
        tables = (rectangle, held_lens, ragged_starts, ragged_slots)
        kernel[(len(held_lens),)](*tables, rectangle.stride(0), Q_LEN=num_queries, BLOCK_SIZE=128)

    return launch


def _slots_by_rank(_: Any, inputs: Inputs) -> list[int]:
    return [slot for row in _ranks_slots(inputs.case) for slot in row]


def _all_slots(case: Case) -> list[int]:
    size = case.batch.block_size
    return [
        request.block_ids[p // size] * size + p % size
        for request in case.batch.requests
        for p in range(request.seq_len)
    ]


@ENGINE.adapts(
    _DCP,
    "update_kv_lens_and_indices",
    operation="kv_indices",
    dialect=having(
        CUMAE,
        "kv_indices",
        Output(
            "local_slots",
            "int32",
            "local_slot",
            "every slot whose position is the rank's, in order",
            follows="kv_indices",
            shape=lambda case: (sum(map(len, _ranks_slots(case))),),
            expect=_slots_by_rank,
        ),
        all_slots=int32(_all_slots),
        all_lens=int32(lambda case: [request.seq_len for request in case.batch.requests]),
        all_starts=int32(lambda case: [0, *accumulate(r.seq_len for r in case.batch.requests)]),
        held_lens=int32(lambda case: [len(row) for row in _ranks_slots(case)]),
        held_starts=int32(lambda case: [0, *accumulate(map(len, _ranks_slots(case)))]),
        num_ranks=lambda case: _world(case)[0],
        own_rank=lambda case: _world(case)[1],
    ),
    domain=RANKS,
)
def slots_of_rank(kernel: Any) -> Callable[..., None]:
    """The rank's slots out of the list of all."""

    def launch(
        all_slots: Tensor,
        all_lens: Tensor,
        all_starts: Tensor,
        held_lens: Tensor,
        held_starts: Tensor,
        num_ranks: int,
        own_rank: int,
        local_slots: Tensor,
    ) -> None:
        tiles = max(-(-int(held_lens.max()) // 256), 1)
        everything = (all_lens, all_starts, all_slots, held_lens, held_starts, local_slots)
        kernel[(len(all_lens), tiles)](*everything, own_rank, num_ranks, BLOCK_SIZE=256)

    return launch


def _rows_of_keys(answer: Any, inputs: Inputs) -> list[int]:
    """Return the row of each key: all prefixes were gathered first, and new keys stand behind them."""
    gathered = sum(request.context_len for request in inputs.case.batch.requests)
    found, cached = list[int](), 0
    for kind, *place in answer.keys[: inputs["cu_seqlens_k"][-1]]:
        found.append(cached if kind == "cache" else gathered + place[0])
        cached += kind == "cache"
    return found


@ENGINE.adapts(
    _DCP,
    "create_dcp_kv_indices",
    operation="prefix_interleave",
    dialect=having(
        CUMAE,
        "prefix_interleave",
        Output(
            "rows_of_keys",
            "int32",
            "key_row_of_gathered",
            "the row of each key: prefixes were gathered first, new keys stand behind them",
            shape=lambda case: (sum(request.seq_len for request in case.batch.requests),),
            expect=_rows_of_keys,
        ),
        prefix_starts=int32(lambda case: [0, *accumulate(r.context_len for r in case.batch.requests)]),
    ),
    domain=_UNPADDED.having(missing_blocks=False, key_scope=("all",)),
)
def rows_of_gathered_keys(kernel: Any) -> Callable[..., None]:
    """The rows of each request's keys among those of all ranks, which were gathered in two parts."""

    def launch(
        cu_seqlens_k: Tensor,
        query_lens: Tensor,
        cu_seqlens_q: Tensor,
        context_lens: Tensor,
        prefix_starts: Tensor,
        rows_of_keys: Tensor,
    ) -> None:
        lens = (query_lens, cu_seqlens_q, context_lens, prefix_starts)
        kernel[(len(query_lens),)](cu_seqlens_k, *lens, rows_of_keys, int(prefix_starts[-1]), 2)

    return launch


def _dealt(inputs: Inputs) -> list[tuple[int, int]]:
    """Return each request of which the rank has new tokens, and how many; tokens are dealt out one by one."""
    world, rank = _world(inputs.case)
    ends = [local_len(stop, world, rank, 1) for stop in inputs["cu_seqlens_q"]]
    lens = [stop - start for start, stop in pairwise(ends)]
    return [(b, count) for b, count in enumerate(lens) if count]


def _of_dealt(name: str, rule: str, place: int) -> Output:
    return Output(
        name,
        "int32",
        "dealt_request",
        rule,
        follows="local_lens",
        shape=lambda case: (len(_dealt(Inputs(case))),),
        expect=lambda _, inputs: [one[place] for one in _dealt(inputs)],
    )


@ENGINE.adapts(
    "sglang/kernels/ops/attention/dsa/cp_split.py",
    "dsa_cp_interleave_q_seqs",
    operation="local_lens",
    dialect=having(
        CUMAE,
        "local_lens",
        _of_dealt("dealt_lens", "the new tokens of the rank, those of the step dealt out one by one", 1),
        _of_dealt("dealt_requests", "the requests of which the rank has some", 0),
        num_dealt=lambda case: len(_dealt(Inputs(case))),
        num_ranks=lambda case: _world(case)[0],
        own_rank=lambda case: _world(case)[1],
    ),
    domain=_UNPADDED.having(world=(1,)),
)
def dealt_queries(function: Any) -> Callable[..., dict[str, Tensor]]:
    """New tokens of a rank of prefill context parallelism, by request, in one program."""

    def launch(query_lens: Tensor, num_dealt: int, num_ranks: int, own_rank: int) -> dict[str, Tensor]:
        lens, requests = function(query_lens.int(), num_dealt, num_ranks, own_rank)
        return {"dealt_lens": lens, "dealt_requests": requests}

    return launch
