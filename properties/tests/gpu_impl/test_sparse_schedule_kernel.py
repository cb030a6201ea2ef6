"""The kernel of schedules, on steps of one tile and of many."""

import importlib
import random

import pytest
import torch

from cumae.gpu_impl import write_sparse_schedule
from cumae.properties.tests.given.steps import (
    DEVICE,
    INDEX_DTYPES,
    POISON,
    Step,
    drawn,
    expected_schedule,
    lists,
)

pytestmark = pytest.mark.usefixtures("inside_every_tensor_in_any_order")


def check_schedule(step: Step, topk: int, split_size: int, num_workers: int, dtype: torch.dtype) -> None:
    expected = expected_schedule(step, topk, split_size, num_workers)
    held = [torch.full((len(e) + 2,), POISON, dtype=torch.int32, device=DEVICE) for e in expected]
    inputs = step.tensors(dtype)
    write_sparse_schedule(
        **inputs,
        topk=topk,
        split_size=split_size,
        num_workers=num_workers,
        **dict(
            zip(
                ("work_indptr", "work_token", "work_start", "work_stop", "num_splits"),
                (buffer[1:-1] for buffer in held),
                strict=True,
            )
        ),
    )
    assert lists(held) == [[POISON, *e, POISON] for e in expected], (step, topk, split_size, num_workers)
    for name, tensor in step.tensors(dtype).items():
        assert torch.equal(tensor, inputs[name])


@pytest.mark.parametrize("topk", [1, 2, 7, 2048])
@pytest.mark.parametrize("split_size", [1, 3, 64, 256])
def test_a_schedule_is_that_of_the_definition(topk: int, split_size: int) -> None:
    rng = random.Random(1000 * topk + split_size)
    for num_workers in (1, 3, 132, 3, 132):
        small = topk // split_size > 100
        check_schedule(
            drawn(rng, topk, 3 if small else 40), topk, split_size, num_workers, rng.choice(INDEX_DTYPES)
        )


@pytest.mark.parametrize(
    ("num_tokens", "topk", "split_size"),
    [(1023, 7, 3), (1024, 7, 7), (1025, 7, 3), (3000, 2, 64), (3000, 2048, 256), (3000, 20, 1)],
)
def test_a_schedule_longer_than_a_tile_is_that_of_the_definition(
    num_tokens: int, topk: int, split_size: int
) -> None:
    rng = random.Random(num_tokens)
    query_lens = [0, num_tokens // 2]
    while sum(query_lens) < num_tokens - 5:
        query_lens.append(min(rng.choice((0, 1, 3, 50)), num_tokens - 5 - sum(query_lens)))
    context_lens = [rng.choice((0, 2, topk, 9999)) for _ in query_lens]
    check_schedule(Step(context_lens, query_lens, 5, 0), topk, split_size, 132, torch.int32)


def test_sums_of_more_tiles_than_a_chunk_carry(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = importlib.import_module("cumae.gpu_impl.tile_ends")
    monkeypatch.setattr(ends, "TILES_PER_CHUNK", 2)
    check_schedule(Step([0, 3], [2000, 3300], 30), 5, 2, 3, torch.int64)


@pytest.mark.parametrize("step", [Step([], []), Step([4, 0], [0, 0])])
def test_a_step_without_rows_writes_a_zero_indptr(step: Step) -> None:
    assert expected_schedule(step, 7, 3, 3) == [[0, 0, 0, 0], [], [], [], []]
    check_schedule(step, 7, 3, 3, torch.int32)


def test_padding_alone_has_no_items() -> None:
    check_schedule(Step([], [], 3), 7, 3, 2, torch.int32)
    check_schedule(Step([9, 0], [0, 0], 3, 0), 7, 3, 2, torch.int32)
