"""Keys and values out of pages: every order and format, missing blocks, every fp8 number, refusals."""

import re
from typing import Any

import numpy as np
import pytest
import torch

from cumae import gpu_impl
from cumae.properties.running.device import prepare

DEVICE = prepare("auto")
pytestmark = pytest.mark.usefixtures("watched")
Tensor = torch.Tensor
COPIED = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
ORDERS = ("NHD", "HND", "joined", "packed", "shuffled")
FORMATS = (*COPIED, "bytes", "fp8", "fp8_own", "int8_own")
HELD = [(o, f) for o in ORDERS for f in FORMATS if not (f.endswith("_own") and o in ("packed", "shuffled"))]
# With the second and third scale, some products are halfway between two bf16 numbers.
SCALES = (1.0, 1.00390625, 1.01171875, 0.1, -0.3, 2.0**-120, 3.1e-38, 2e-40, 1e-45, 7.6e35, 1e37, 3.4e38)
# Five requests, of which four are live. The table has no row 4, no column 3, and no block 9.
SEQ_LENS, ROW_INDEX = [50, 0, 20, 29, 999], [2, 0, 4, 1, 3]
TABLE = [[3, 1, 0], [1, 9, 2], [0, -1, 2], [0, 3, 0]]
RANDOM = torch.Generator().manual_seed(0)


def in_order(order: str, keys: Tensor, values: Tensor, x: int) -> Tensor:
    """Return [num_blocks, page] of keys [num_blocks, token, H, D] and values [num_blocks, token, H, V]."""
    num_blocks, size, num_heads, key = keys.shape
    if order == "joined":
        return torch.cat([keys, values], 3).reshape(num_blocks, -1)
    if order == "HND":
        keys, values = keys.transpose(1, 2), values.transpose(1, 2)
    if order in ("packed", "shuffled"):
        keys = keys.reshape(num_blocks, size, num_heads, key // x, x).permute(0, 2, 3, 1, 4)
        of_groups = values.reshape(num_blocks, -1, size if order == "packed" else x, *values.shape[2:])
        values = of_groups.permute(0, 3, 1, 4, 2)
    return torch.cat([keys.reshape(num_blocks, -1), values.reshape(num_blocks, -1)], 1)


def gathered(cached: Tensor, rows: Tensor, row_index: list[int], window: int) -> Tensor:
    """Return rows with the tokens of cached [num_blocks, token, …] that the first four requests have."""
    i, rows, size = 0, rows.clone(), cached.shape[1]
    for seq_len, i_row in zip(SEQ_LENS[:4], row_index[:4], strict=True):
        for position in range(max(seq_len - window, 0) if window else 0, seq_len):
            i_column = position // size
            block = TABLE[i_row][i_column] if i_row < 4 and i_column < 3 else -1
            if 0 <= block < len(cached) and i < len(rows):
                rows[i] = cached[block, position % size]
            i += 1
    return rows


def bf16(*shape: int) -> Tensor:
    return torch.zeros(shape, dtype=torch.bfloat16, device=DEVICE)


def bytes_of(*shape: int) -> Tensor:
    """Return random bytes that are e4m3fn numbers, too."""
    found = torch.randint(0, 256, shape, dtype=torch.uint8, generator=RANDOM)
    return torch.where((found & 127) == 127, 5, found)


@pytest.mark.parametrize(("order", "head_format"), HELD)
@pytest.mark.parametrize(("num_heads", "gap", "window", "capacity"), [(1, 0, 0, 110), (3, 16, 11, 28)])
def test_rows_are_those_of_plain_indexing(
    order: str, head_format: str, num_heads: int, gap: int, window: int, capacity: int
) -> None:
    dtype = COPIED.get(head_format, torch.uint8)
    x = 16 // dtype.itemsize
    key, value = (36, 12) if head_format.endswith("_own") else (2 * x, 5)
    taken = torch.bfloat16 if head_format == "fp8" else dtype
    cached = [bytes_of(4, 16, num_heads, dim * dtype.itemsize).view(dtype) for dim in (key, value)]
    page = in_order(order, cached[0], cached[1], x)
    store = bytes_of(4, page.shape[1] * dtype.itemsize + gap).view(dtype)
    store[:, : page.shape[1]] = page
    pages = store.to(DEVICE)[:, : page.shape[1]]
    scales = (0.3, 1.75)
    if head_format == "fp8":
        numbers = [c.view(torch.float8_e4m3fn).float() for c in cached]
        cached = [(n * torch.tensor(s)).bfloat16() for n, s in zip(numbers, scales, strict=True)]
    rows = [bytes_of(capacity, num_heads, dim * taken.itemsize).view(taken) for dim in (key, value)]
    found = [r.clone().to(DEVICE) for r in rows]
    seq_lens, index = torch.tensor(SEQ_LENS, device=DEVICE), torch.tensor(ROW_INDEX, device=DEVICE)
    table = torch.tensor(TABLE, dtype=torch.int32, device=DEVICE).t().contiguous().t()
    heads = (16, num_heads, window, order, head_format, *scales)
    gpu_impl.read_pages(pages, table, None if window else index, seq_lens, 4, *heads, found[0], found[1])
    for c, r, f in zip(cached, rows, found, strict=True):
        expected = gathered(c, r, list(range(5)) if window else ROW_INDEX, window)
        assert torch.equal(f.cpu().view(torch.uint8), expected.view(torch.uint8))


def test_every_fp8_number_is_scaled_to_the_bit() -> None:
    e4m3 = np.array([b for b in range(256) if b & 127 != 127], np.uint8)
    numbers = torch.from_numpy(e4m3).view(torch.float8_e4m3fn).float().numpy()
    pages = torch.from_numpy(np.concatenate([e4m3, e4m3])).view(1, -1).to(DEVICE)
    zero, one = torch.zeros(1, 1, device=DEVICE).int(), torch.ones(1, device=DEVICE).int()
    for scale in SCALES:
        keys, values = (bf16(1, 254) for _ in range(2))
        gpu_impl.read_pages(pages, zero, None, one, 1, 1, 2, 0, "NHD", "fp8", scale, -scale, keys, values)
        with np.errstate(over="ignore"):
            bits = (numbers * np.float32(scale)).view(np.uint32).astype(np.int64)
        bits = (bits >> 16) + ((bits & 0xFFFF) + ((bits >> 16) & 1) > 0x8000)  # halves to the even number
        for rows, expected in ((keys, bits), (values, bits ^ 0x8000)):
            np.testing.assert_array_equal(rows.view(torch.int16).cpu().numpy().view(np.uint16)[0], expected)


def test_many_requests_take_all_programs_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cumae.gpu_impl.page_read.MAX_PROGRAMS", 3)
    seq_lens = torch.arange(1500) % 3
    table = torch.arange(1500).view(-1, 1) * 7 % 1500
    pages = torch.arange(6000, dtype=torch.int32).view(torch.float32).view(1500, 4).to(DEVICE)
    keys, values = (torch.zeros(1490, 1, device=DEVICE) for _ in range(2))
    numbers = (1500, 2, 1, 0, "NHD", "fp32", 1.0, 1.0)
    gpu_impl.read_pages(pages, table.to(DEVICE), None, seq_lens.to(DEVICE), *numbers, keys, values)
    expected = [4 * int(table[b]) + i for b in range(1500) for i in range(b % 3)][:1490]
    assert keys.view(torch.int32).flatten().tolist() == expected
    assert values.view(torch.int32).flatten().tolist() == [i + 2 for i in expected]


def arguments() -> dict[str, Any]:
    """Arguments that the launcher accepts."""
    numbers = {"num_requests": 2, "block_size": 8, "num_heads": 1, "window": 0}
    options = {"page_order": "shuffled", "head_format": "bf16", "key_scale": 1.0, "value_scale": 1.0}
    table, seq_lens = torch.tensor([[1], [0]], device=DEVICE), torch.tensor([2, 1], device=DEVICE)
    requests = {"block_table": table, "row_index": None, "seq_lens": seq_lens}
    rows = {"pages": bf16(2, 192) + 1, "keys": bf16(3, 1, 16), "values": bf16(3, 8)}
    return {**numbers, **options, **requests, **rows}


def test_no_request_no_page_and_no_row_are_no_work() -> None:
    good = arguments()
    no_rows = {name: good[name][:0] for name in ("keys", "values")}
    for empty in ({"num_requests": 0}, {"pages": good["pages"][:0]}, no_rows):
        gpu_impl.read_pages(**good | empty)
    assert good["keys"].eq(0).all()


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("pages", None, "pages = None"),
        ("pages", bf16(2, 191), "pages.shape = (2, 191)"),
        ("pages", torch.zeros(2, 192, device=DEVICE), "pages.dtype = torch.float32"),
        ("pages", bf16(192, 2).t(), "pages.stride() = (1, 2)"),
        ("seq_lens", torch.zeros(2, 1, dtype=torch.int32, device=DEVICE), "seq_lens.shape = (2, 1)"),
        ("block_size", 4, "block_size = 4, must be a multiple of 8"),
        ("num_heads", 0, "num_heads = 0"),
        ("num_heads", 3, "keys.shape = (3, 1, 16), must have rows of num_heads = 3 heads"),
        ("window", -1, "window = -1"),
        ("page_order", "NDH", "page_order = 'NDH'"),
        ("head_format", "fp16", "keys.dtype = torch.bfloat16"),
        ("key_scale", float("inf"), "key_scale = inf"),
        ("value_scale", 1, "value_scale = 1, must be a finite float"),
        ("keys", bf16(3, 12), "head_dim = 12, must be a multiple"),
        ("keys", bf16(3, 32)[:, ::2], "keys.stride() = (32, 2)"),
        ("values", bf16(2, 8), "values.shape = (2, 8)"),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(field: str, value: Any, says: str) -> None:
    good = arguments()
    gpu_impl.read_pages(**good)
    assert good["keys"].eq(1).all() and good["values"].eq(1).all()
    bad = arguments() | {field: value}
    with pytest.raises(ValueError, match=f"^{re.escape(says)}"):
        gpu_impl.read_pages(**bad)
    assert all(t.eq(0).all() for t in (bad["keys"], bad["values"]))
