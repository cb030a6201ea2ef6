"""Table rows past 2^31 elements: dense tables of many rows are promised, strides beyond 32 bits by nobody."""

from itertools import product
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from cumae import Domain
from cumae.oracle import Batch, Case, Layout, Request
from cumae.oracle.model.rules import INT32_MAX
from cumae.properties.checks import CHECKS, Trial, checks_for
from cumae.properties.dialects import Ints
from cumae.properties.operations import OPERATIONS
from cumae.properties.operations.binding import binding_of
from cumae.properties.operations.targets import load_function
from cumae.properties.running.device import prepare

DEVICE = prepare("auto")
BATCHES = [
    Batch((Request(3, 2, (4, 1)), Request(5, 1, (7, 2), "decode")), 4),
    Batch((Request(5, 1, (7, 2), "decode"), Request(3, 2, (4, 1)), Request(0, 3, (9,))), 4),
]
LARGE = [name for name, operation in OPERATIONS.items() if operation.enlarge is not None]


@triton.jit
def _slots(
    token_to_request: tl.tensor,
    row_index: tl.tensor,
    position_ids: tl.tensor,
    block_table: tl.tensor,
    slot_mapping: tl.tensor,
    num_slots: tl.tensor,
    BLOCK_SIZE: tl.constexpr,
    STRIDE: tl.constexpr,
    COLUMN: tl.constexpr,
    BY_ROW: tl.constexpr,
    WIDE: tl.constexpr,
) -> None:
    i_token = tl.program_id(0)
    row = tl.load(token_to_request + i_token)
    if BY_ROW:
        row = tl.load(row_index + row, mask=row >= 0, other=-1)
    position = tl.load(position_ids + i_token, mask=row >= 0, other=0)
    first = row.to(tl.int64) * STRIDE if WIDE else row * STRIDE
    block_id = tl.load(block_table + first + position // BLOCK_SIZE * COLUMN, mask=row >= 0, other=-1)
    slot = block_id.to(tl.int64) * BLOCK_SIZE + position % BLOCK_SIZE
    tl.store(slot_mapping + i_token, tl.where(row >= 0, slot, -1))


def kernel(*, wide: bool, by_row: bool) -> Any:
    """Return a slot mapping of dense tables by a stride that is a constant of the compiler."""

    def launch(arguments: dict[str, Any]) -> None:
        num_tokens = arguments["token_to_request"].numel()
        table = arguments["block_table"]
        arguments["slot_mapping"][num_tokens:] = -1
        if num_tokens:
            _slots[(num_tokens,)](
                arguments["token_to_request"],
                arguments["row_index"],
                arguments["position_ids"],
                table,
                arguments["slot_mapping"],
                num_tokens,
                BLOCK_SIZE=arguments["block_size"],
                STRIDE=table.stride(0),
                COLUMN=table.stride(1),
                BY_ROW=by_row,
                WIDE=wide,
            )

    def by_request(
        token_to_request: torch.Tensor,
        position_ids: torch.Tensor,
        block_table: torch.Tensor,
        block_size: int,
        slot_mapping: torch.Tensor,
    ) -> None:
        launch(locals() | {"row_index": token_to_request})

    def looked_up(
        token_to_request: torch.Tensor,
        row_index: torch.Tensor,
        position_ids: torch.Tensor,
        block_table: torch.Tensor,
        block_size: int,
        slot_mapping: torch.Tensor,
    ) -> None:
        launch(locals())

    return looked_up if by_row else by_request


def trial(*, wide: bool, by_row: bool, strided: bool, batch: Batch) -> Trial:
    binding = binding_of(kernel(wide=wide, by_row=by_row), "slot_mapping", domain=Domain(strided=strided))
    assert "survives_large_ids" in checks_for(binding)
    rows = tuple(range(len(batch.requests)))[::-1] if by_row else None
    return Trial(binding, Case(batch, Layout(row_index=rows)), DEVICE)


@pytest.mark.parametrize(("by_row", "strided"), list(product([False, True], repeat=2)))
@pytest.mark.parametrize("batch", BATCHES)
def test_a_constant_stride_is_no_fault(by_row: bool, strided: bool, batch: Batch) -> None:
    assert CHECKS["survives_large_ids"](trial(wide=True, by_row=by_row, strided=strided, batch=batch)) is None


@pytest.mark.skipif(DEVICE == "cuda", reason="what it reads is so far off that it ends the CUDA context")
@pytest.mark.parametrize(("by_row", "strided"), list(product([False, True], repeat=2)))
def test_a_row_offset_of_32_bits_is_one_dense_or_not(by_row: bool, strided: bool) -> None:
    for batch in BATCHES[strided and not by_row :]:
        found = CHECKS["survives_large_ids"](trial(wide=False, by_row=by_row, strided=strided, batch=batch))
        assert found is not None
        assert "at offsets past 2^31" in found.message


@pytest.mark.parametrize("operation", ["slot_mapping", "topk_to_slots"])
@pytest.mark.parametrize("rows", [(5,), None])
def test_a_kernel_that_is_guarded_by_the_width_of_the_table_is_right_in_a_large_one(
    operation: str, rows: tuple[int, ...] | None
) -> None:
    row = OPERATIONS[operation]
    binding = binding_of(load_function(row.kernels[0]), row, domain=Domain(strided=False))
    batch = Batch((Request(382, 3, (0, 1, -1)),), 64, 3)
    looked_up = rows if "row_index" in row.features else None
    trial = Trial(binding, Case(batch, Layout(row_index=looked_up)), DEVICE)
    assert CHECKS["survives_large_ids"](trial) is None


@pytest.mark.parametrize("operation", LARGE)
@pytest.mark.parametrize("batch", [*BATCHES, Batch((Request(0, 2, (1,)),), 4)])
@pytest.mark.parametrize("rows", [False, True])
def test_no_stride_is_beyond_32_bits(operation: str, batch: Batch, rows: bool) -> None:
    layout = Layout(row_index=tuple(range(len(batch.requests))) if rows else None)
    enlarge = OPERATIONS[operation].enlarge
    assert enlarge is not None
    for case in enlarge(Case(batch, layout)):
        gaps = case.layout.table_row_gap, case.layout.cache_row_gap, case.layout.key_row_gap
        assert max(gaps) < INT32_MAX - 2**20


@pytest.mark.parametrize("rows", [None, (2, 0, 1)])
def test_blocks_that_are_missing_at_the_end_are_missing_in_a_large_table(
    rows: tuple[int, ...] | None,
) -> None:
    batch = Batch((Request(6, 1, (4, -1)), Request(0, 2, (-1,)), Request(1, 1, (3,))), 4)
    launch = kernel(wide=True, by_row=rows is not None)
    binding = binding_of(launch, "slot_mapping", domain=Domain(strided=False))
    large = Trial(binding, Case(batch, Layout(row_index=rows)), DEVICE).enlarged()
    tables = [bench for bench, _ in large if bench.case.layout.min_table_columns]
    assert tables
    for bench in tables:
        table = bench.held("block_table")
        assert isinstance(table, Ints)
        found = [table.values[row].tolist() for row in bench.case.layout.row_index or (2048, 2049, 2050)]
        assert (found[0][1], found[1][0], found[2][0]) == (-1, -1, 3)


def test_rows_without_empty_requests_lie_as_far_in_a_dense_table() -> None:
    domain = Domain(strided=False, empty_requests=False)
    # On a GPU what the narrow one reads is so far off that it ends the CUDA context.
    for wide in (True, False) if DEVICE == "cpu" else (True,):
        binding = binding_of(kernel(wide=wide, by_row=False), "slot_mapping", domain=domain)
        case = Case(Batch((Request(1, 1, (3,)),), 4))
        large = [bench.case for bench, _ in Trial(binding, case, DEVICE).enlarged()]
        assert [domain.why_not(one) for one in large] == [None] * len(large)
        assert (CHECKS["survives_large_ids"](Trial(binding, case, DEVICE)) is None) == wide


@pytest.mark.parametrize("operation", ["topk_to_slots", "compact_topk_slots", "window_slots"])
@pytest.mark.parametrize("block_size", [1, 3, 64])
def test_slots_of_32_bits_reach_the_largest(operation: str, block_size: int) -> None:
    case = Case(Batch((Request(2, 1, (7, 8, 9)), Request(1, 1, (3, 5))), block_size))
    enlarge = OPERATIONS[operation].enlarge
    assert enlarge is not None
    slots = [block_size * (1 + max(max(r.block_ids) for r in one.batch.requests)) for one in enlarge(case)]
    assert 2**31 - block_size <= max(slots) <= 2**31


def test_a_pool_of_32_bits_holds_no_larger_slots() -> None:
    seen = []

    def last_slots(
        req_to_token: torch.Tensor,
        req_pool_indices: torch.Tensor,
        prefix_lens: torch.Tensor,
        last_locs: torch.Tensor,
    ) -> None:
        found = req_to_token[req_pool_indices.long(), (prefix_lens - 1).clamp(min=0)].long()
        last_locs.copy_(torch.where(prefix_lens > 0, found, -1))
        seen.append(int(last_locs.max()))

    domain = Domain(captured=False, padding="none")
    binding = binding_of(last_slots, "allocate_slots", dialect="sglang", domain=domain)
    trial = Trial(binding, Case(Batch((Request(1, 1, (3,)),), 4)), DEVICE)
    assert CHECKS["survives_large_ids"](trial) is None
    assert 2**31 - 8 <= max(seen) < 2**31
