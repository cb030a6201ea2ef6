"""Staged writes: new blocks of requests, in the rows of their states behind those that they have."""

from collections.abc import Callable
from typing import Any

import torch

from cumae.oracle import UNTOUCHED, Case, Inputs
from cumae.properties.dialects import VLLM, Input, Ints, Output
from cumae.properties.dialects.held import ints
from cumae.properties.engines.pages import having
from cumae.properties.engines.vllm.drafts import state_rows
from cumae.properties.engines.vllm.engine import ENGINE, UNPADDED
from cumae.properties.engines.vllm.verified_drafts import num_states

Tensor = torch.Tensor
_SHORT = 9
_FILE = "vllm/v1/worker/gpu/buffer_utils.py"


def _width(case: Case) -> int:
    """Return the columns of the table, some of which no request needs."""
    return max((len(r.block_ids) for r in case.batch.requests), default=0) + 1 + case.layout.num_spare_columns


def _num_held(case: Case) -> list[int]:
    """Return the blocks that each request has before the step: none, some, or all."""
    counts = [len(request.block_ids) for request in case.batch.requests]
    return [(0, count // 2, max(count - 1, 0), count)[b % 4] for b, count in enumerate(counts)]


def _writes(case: Case) -> list[tuple[int, int, list[int]]]:
    """Return state, first column and blocks of each write; every fifth request has two of them."""
    found = list[tuple[int, int, list[int]]]()
    rows = zip(case.batch.requests, state_rows(case), _num_held(case), strict=True)
    for b, (request, state, held) in enumerate(rows):
        stop = len(request.block_ids)
        middle = (held + stop) // 2 if b % 5 == 0 else stop
        for start, end in ((held, middle), (middle, stop)):
            if start < end:
                found.append((state, start, list(request.block_ids[start:end])))
    return found


def _table(name: str, more: int = 0, longest: int = 2**31) -> Output:
    """Return a table of states; ids of its blocks are higher by ``more``, and it has as many more columns.

    Writes of more than ``longest`` blocks are left out.
    """

    def width(case: Case) -> int:
        return _width(case) + more

    def before(inputs: Inputs) -> Ints:
        case = inputs.case
        rows = [[-9] * width(case) for _ in range(num_states(case))]
        step = zip(case.batch.requests, state_rows(case), _num_held(case), strict=True)
        for request, state, held in step:
            rows[state][:held] = [block + more for block in request.block_ids[:held]]
        return ints(rows, "int32", "zero", width=width(case))

    def expect(_: Any, inputs: Inputs) -> list[Any]:
        case = inputs.case
        rows: list[list[Any]] = [[UNTOUCHED] * width(case) for _ in range(num_states(case))]
        for state, start, blocks in _writes(case):
            if len(blocks) <= longest:
                rows[state][start : start + len(blocks)] = [block + more for block in blocks]
        return [entry for row in rows for entry in row]

    return Output(
        name,
        "int32",
        f"place_of_{name}",
        "new blocks behind those that the request has; other entries stay",
        follows="page_table",
        shape=lambda case: (num_states(case), width(case)),
        expect=expect,
        before=before,
    )


def _flat(values: Callable[[Case], list[int]]) -> Input:
    return Input(lambda inputs: ints(values(inputs.case), "int32", "zero"))


_WRITES = VLLM.extend(
    states=_flat(lambda case: [state for state, _, _ in _writes(case)]),
    firsts=_flat(lambda case: [start for _, start, _ in _writes(case)]),
    lens=_flat(lambda case: [len(blocks) for _, _, blocks in _writes(case)]),
    blocks=_flat(lambda case: [block for _, _, blocks in _writes(case) for block in blocks]),
)
_DOMAIN = UNPADDED.having(missing_blocks=False, rowless_requests=False, max_block_id=2**30)


class _Pool:
    """Stands in for buffers on the host that a GPU reads: copies on the device do as well."""

    def __init__(self, size: int, dtype: torch.dtype, max_concurrency: int | None = None) -> None:
        self.dtype = dtype

    def copy_to_uva(self, values: list[int]) -> Tensor:
        """Return the values on the device that is the default one now."""
        return torch.tensor(values, dtype=self.dtype)


def _on_device(values: list[int], device: torch.device, dtype: torch.dtype) -> Tensor:
    return torch.tensor(values, dtype=dtype, device=device)


def _staged(kind: Any, table: Tensor, writes: tuple[Tensor, ...], more: int = 0, longest: int = 2**31) -> Any:
    """Return a table with writes staged, of ``longest`` blocks at most, whose ids are higher by ``more``."""
    staged = kind(1, torch.int32, table.device)
    staged.gpu = table
    states, firsts, lens, blocks = (one.tolist() for one in writes)
    for state, first, length in zip(states, firsts, lens, strict=True):
        if length <= longest:
            staged.stage_write(state, first, [block + more for block in blocks[:length]])
        del blocks[:length]
    return staged


@ENGINE.adapts(
    _FILE,
    "StagedWriteTensor",
    operation="page_table",
    dialect=having(_WRITES, "page_table", _table("state_table")),
    domain=_DOMAIN,
    UvaBufferPool=_Pool,
    async_tensor_h2d=_on_device,
)
def staged_blocks(kind: Any) -> Callable[..., None]:
    """Runner V2: the table of one group."""

    def launch(states: Tensor, firsts: Tensor, lens: Tensor, blocks: Tensor, state_table: Tensor) -> None:
        with state_table.device:
            _staged(kind, state_table, (states, firsts, lens, blocks)).apply_write()

    return launch


@ENGINE.adapts(
    _FILE,
    "FusedStagedWriter",
    "StagedWriteTensor",
    operation="page_table",
    dialect=having(_WRITES, "page_table", _table("state_table"), _table("other_table", 3, _SHORT)),
    domain=_DOMAIN,
    UvaBufferPool=_Pool,
    async_tensor_h2d=_on_device,
)
def staged_blocks_of_groups(writer: Any, kind: Any) -> Callable[..., None]:
    """Runner V2: the tables of two groups and of one without writes, in one launch."""

    def launch(
        states: Tensor,
        firsts: Tensor,
        lens: Tensor,
        blocks: Tensor,
        state_table: Tensor,
        other_table: Tensor,
    ) -> None:
        writes, device = (states, firsts, lens, blocks), state_table.device
        with device:
            groups = [
                _staged(kind, state_table, writes),
                kind((len(state_table), 5), torch.int32, device),
                _staged(kind, other_table, writes, 3, _SHORT),
            ]
            addresses = torch.tensor([one.gpu.data_ptr() for one in groups], dtype=torch.uint64)
            strides = torch.tensor([one.gpu.stride(0) for one in groups])
            writer(device, 3 * len(state_table)).apply(groups, addresses, strides)

    return launch
