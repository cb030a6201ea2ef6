"""Table rows past 2^31 elements: dense tables of many rows are promised, strides beyond 32 bits by nobody."""

import time
from itertools import product
from math import inf
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


def copying(token_to_request: torch.Tensor, position_ids: torch.Tensor, block_table: torch.Tensor,
            block_size: int, slot_mapping: torch.Tensor) -> None:  # fmt: skip
    slot_mapping.fill_(-1)
    live = torch.nonzero(token_to_request >= 0).flatten()
    position = position_ids[live].long()
    blocks = block_table.long()[token_to_request[live].long(), position // block_size]
    slot_mapping[live] = torch.where(blocks >= 0, blocks * block_size + position % block_size, -1)


def listing(token_to_request: torch.Tensor, position_ids: torch.Tensor, block_table: torch.Tensor,
            block_size: int, slot_mapping: torch.Tensor) -> None:  # fmt: skip
    slot_mapping.fill_(-1)
    table, position = block_table.tolist(), position_ids.tolist()
    for i, b in enumerate(token_to_request.tolist()):
        block = table[b][position[i] // block_size] if b >= 0 else -1
        slot_mapping[i] = block * block_size + position[i] % block_size if block >= 0 else -1


def hashing(token_to_request: torch.Tensor, position_ids: torch.Tensor, block_table: torch.Tensor,
            block_size: int, slot_mapping: torch.Tensor) -> None:  # fmt: skip
    hash(block_table.cpu().numpy().tobytes())
    kernel(wide=True, by_row=False)(token_to_request, position_ids, block_table, block_size, slot_mapping)


@pytest.mark.parametrize("function", [copying, listing, hashing])
def test_a_function_that_reads_tables_whole_is_not_given_one_of_gigabytes(function: Any) -> None:
    binding = binding_of(function, "slot_mapping", domain=Domain(strided=False))
    asked = Trial(binding, Case(BATCHES[0]), DEVICE)
    assert CHECKS["survives_large_ids"](asked) is None
    assert asked.note.startswith("not tried with a table of 2^31 entries")
    assert not asked.saw_nothing  # ids beyond 2^31 were tried


def test_a_function_that_reads_what_it_needs_is_given_one() -> None:
    asked = trial(wide=True, by_row=False, strided=False, batch=BATCHES[0])
    assert CHECKS["survives_large_ids"](asked) is None
    assert not asked.note


def test_a_view_of_a_table_is_no_copy() -> None:
    def narrow(
        token_to_request: torch.Tensor,
        position_ids: torch.Tensor,
        block_table: torch.Tensor,
        block_size: int,
        slot_mapping: torch.Tensor,
    ) -> None:
        slot_mapping.fill_(-1)
        live = torch.nonzero(token_to_request >= 0).flatten()
        position = position_ids[live].int()
        place = token_to_request[live].int() * block_table.shape[1] + position // block_size
        blocks = block_table.view(-1)[place.clamp(min=0).long()].long()
        slot_mapping[live] = torch.where(blocks >= 0, blocks * block_size + position % block_size, -1)

    binding = binding_of(narrow, "slot_mapping", domain=Domain(strided=False))
    asked = Trial(binding, Case(BATCHES[0]), DEVICE)
    found = CHECKS["survives_large_ids"](asked)
    assert found is not None and not asked.note
    moved = "at offsets past 2^31, in a table of 1,048,576 columns, behind 2,048 requests without new tokens"
    assert moved in found.message
    assert found.left_out_by == "Domain(far_rows=False)" and "Domain" not in found.message
    assert (found.axis, found.wrong) == ("", ())  # it is not placed in the case that is shown
    short = {"max_context_len": 8_192, "max_query_len": 8_192}
    for promise in ({"far_rows": False}, {"max_requests": 2047}, short):
        small = binding_of(narrow, "slot_mapping", domain=Domain(strided=False, **promise))
        assert CHECKS["survives_large_ids"](Trial(small, Case(BATCHES[0]), DEVICE)) is None


def test_a_wide_table_is_first_tried_on_the_case_itself() -> None:
    """Calls on the thousands of requests of the enlarged case take too long to compare their times."""
    shapes = []

    def seen(token_to_request: torch.Tensor, position_ids: torch.Tensor, block_table: torch.Tensor,
             block_size: int, slot_mapping: torch.Tensor) -> None:  # fmt: skip
        shapes.append(tuple(block_table.shape))
        copying(token_to_request, position_ids, block_table, block_size, slot_mapping)

    domain = Domain(strided=False, empty_requests=False)
    case = Case(Batch((Request(1, 1, (3,)),), 4))
    CHECKS["survives_large_ids"](Trial(binding_of(seen, "slot_mapping", domain=domain), case, DEVICE))
    assert (1, 2**22) in shapes


@pytest.mark.parametrize("seconds", [1.0, inf])
def test_a_function_that_is_slow_on_many_requests_is_not_called_on_them(seconds: float) -> None:
    def slow(token_to_request: torch.Tensor, position_ids: torch.Tensor, block_table: torch.Tensor,
             block_size: int, slot_mapping: torch.Tensor) -> None:  # fmt: skip
        time.sleep(0.001 * len(block_table))
        slot_mapping.fill_(-1)
        for token in torch.nonzero(token_to_request >= 0).flatten().tolist():
            position, request = int(position_ids[token]), int(token_to_request[token])
            block = int(block_table[request, position // block_size])
            slot_mapping[token] = block * block_size + position % block_size if block >= 0 else -1

    binding = binding_of(slow, "slot_mapping", domain=Domain(strided=False))
    asked = Trial(binding, Case(Batch((Request(1, 1, (3,)),), 4)), DEVICE, seconds_left=lambda: seconds)
    assert CHECKS["survives_large_ids"](asked) is None
    assert asked.note.startswith("not tried behind 2,048 requests") == (seconds == 1.0), asked.note


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
