"""The slots of selected positions where drawn cases seldom go: wide selections, late positions, no work."""

import torch

from cumae import gpu_impl, oracle
from cumae.properties.running.device import prepare

DEVICE = prepare("auto")


def slots_of(
    owners: list[int],
    positions: torch.Tensor,
    table: list[list[int]],
    block_size: int,
    world: int = 1,
    rank: int = 0,
) -> list[int]:
    token_to_request = torch.tensor(owners, dtype=torch.int32, device=DEVICE)
    block_table = torch.tensor(table, dtype=torch.int32, device=DEVICE)
    selected = positions.to(DEVICE, torch.int32)
    slots = torch.full((selected.numel(),), 77, dtype=torch.int32, device=DEVICE)
    gpu_impl.write_topk_to_slots(
        token_to_request, selected, block_table, block_size, world, rank, 1, slots, None, None
    )
    found: list[int] = slots.tolist()
    return found


def test_selections_wider_than_a_tile_are_written_whole() -> None:
    generator = torch.Generator().manual_seed(0)
    positions = torch.randint(-3, 25, (3, 4100), generator=generator)
    owners, table = [1, -1, 0], [[7, 3, 9], [2, -1, 5]]
    expected = oracle.topk_to_slots(owners, positions.tolist(), table, 7).selected_slots
    assert slots_of(owners, positions, table, 7) == expected


def test_more_tokens_than_one_program_has() -> None:
    positions = torch.arange(5000).reshape(-1, 1) % 9
    owners, table = [t % 3 - 1 for t in range(5000)], [[4, 1], [0, 8]]
    expected = oracle.topk_to_slots(owners, positions.tolist(), table, 4).selected_slots
    assert slots_of(owners, positions, table, 4) == expected


def test_a_request_without_a_row_has_no_slot() -> None:
    assert slots_of([5, 0], torch.tensor([[1], [1]]), [[3]], 4) == [-1, 13]


def test_the_last_position_that_int32_holds_is_found() -> None:
    size, last = 2**20, 2**31 - 1
    positions = torch.tensor([[last, last - 1]])
    # Position 2^31 - 1 is number 2^30 - 1 of the odd ones: the last row of column 1,023.
    assert slots_of([0], positions, [[0] * 1023 + [3]], size, 2, 1) == [4 * size - 1, -1]
    assert slots_of([0], positions, [[0] * 1023 + [3]], size) == [-1, -1]


def test_no_token_and_no_position_are_no_work() -> None:
    assert slots_of([], torch.zeros(0, 4), [[3]], 4) == []
    assert slots_of([0, 0], torch.zeros(2, 0), [[3]], 4) == []


def test_a_table_without_columns_is_not_read() -> None:
    assert slots_of([0], torch.tensor([[0, -1]]), [[]], 4) == [-1, -1]
