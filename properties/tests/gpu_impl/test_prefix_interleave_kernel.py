"""The list of many short rows, as words of each size, and a program that has a row without a source."""

import pytest
import torch

from cumae.gpu_impl import prefix_interleave
from cumae.gpu_impl.prefix_interleave import write_prefix_interleave
from cumae.properties.running.device import prepare

DEVICE = prepare("auto")
CONTEXT_LENS, NEW = (37, 0, 5, 64), (3, 20, 1, 0)
BLOCK_SIZE = 8


@pytest.mark.parametrize("has_hole", [False, True])
@pytest.mark.parametrize(
    ("dtype", "width"),
    [
        (torch.uint8, 17),
        (torch.uint8, 511),
        (torch.int16, 9),
        (torch.bfloat16, 66),
        (torch.int32, 5),
        (torch.int16, 36),
        (torch.int64, 3),
    ],
)
def test_short_rows_are_copied_as_one_list(
    dtype: torch.dtype, width: int, has_hole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"LEAST_OF_FLAT": 0, "ROWS_OF_FLAT": 16, "VECTORS_OF_FLAT": 8}.items():
        monkeypatch.setattr(prefix_interleave, name, value)
    columns = max(CONTEXT_LENS) // BLOCK_SIZE
    table = torch.arange(len(NEW) * columns).flip(0).view(len(NEW), columns)
    blocks = torch.randint(0, 99, (table.numel(), BLOCK_SIZE, width)).to(dtype)
    new_rows = torch.randint(0, 99, (sum(NEW), width)).to(dtype)
    keys, cu_q, cu_k, unwritten = [], [0], [0], []
    for b, (context_len, new) in enumerate(zip(CONTEXT_LENS, NEW, strict=True)):
        keys += [blocks[table[b, p // BLOCK_SIZE], p % BLOCK_SIZE] for p in range(context_len)]
        keys += list(new_rows[cu_q[-1] : cu_q[-1] + new])
        cu_q.append(cu_q[-1] + new)
        cu_k.append(cu_k[-1] + context_len + new)
    if has_hole:
        table[0, 1] = -1
        unwritten = list(range(BLOCK_SIZE, 2 * BLOCK_SIZE))
    expected = torch.stack(keys)
    written = torch.full_like(expected, 101, device=DEVICE)
    expected[unwritten] = 101
    cu_seqlens_q, cu_seqlens_k, context_lens = (
        torch.tensor(values, dtype=torch.int32, device=DEVICE) for values in (cu_q, cu_k, CONTEXT_LENS)
    )
    write_prefix_interleave(
        blocks.to(DEVICE),
        new_rows.to(DEVICE),
        table.int().to(DEVICE),
        cu_seqlens_q,
        cu_seqlens_k,
        context_lens,
        max(CONTEXT_LENS),
        written,
    )
    assert torch.equal(written.cpu(), expected)
