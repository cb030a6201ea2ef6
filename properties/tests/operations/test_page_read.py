"""Keys and values out of pages: facts of the definition, wrong readers, sources that no input holds."""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any

import numpy as np
import pytest
import torch

import cumae
from cumae.fixtures.correct.page_rows import page_read as right
from cumae.oracle import PAGE_ORDERS, Case, Inputs, PageOrder, page_read, page_write, restored_number
from cumae.properties.cases.domain import Domain
from cumae.properties.dialects import CUMAE, Rows
from cumae.properties.operations import OPERATIONS
from cumae.properties.operations.expected import expected_of
from cumae.properties.running.device import prepare
from cumae.properties.tests.given.worked_steps import prefill, step

DEVICE = prepare("auto")
TORCH = Domain(captured=False, strided=False, max_tokens=32, max_context_len=32, max_query_len=16)
Tensor = torch.Tensor
Reader = Callable[..., None]


@pytest.mark.parametrize("order", PAGE_ORDERS)
def test_each_unit_is_read_where_page_write_puts_it(order: PageOrder) -> None:
    sizes = (2, 8, 4, 4)  # heads, units of a key and of a value, units of a group
    pages = page_write([5, 6, 7, 0], 4, 2, 4, *sizes, order).pages
    read = page_read([[1, 0]], [0], [5], 1, 4, 4, *sizes, order, window=4)
    page = len(pages) // 2
    for kind, found, units in (("key", read.keys, 8), ("value", read.values, 4)):
        written = [(kind, row, head, unit) for row in range(4) for head in range(2) for unit in range(units)]
        assert [pages[block * page + place] for _, block, place in found] == written


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("block_size", 0, "block_size = 0, must be >= 1"),
        ("read_capacity", -1, "read_capacity = -1, must be >= 0"),
        ("num_requests", 3, "num_requests = 3, must be <= 1"),
        ("key_units", 6, "key_units = 6, must be a multiple of a group of 4"),
        ("page_order", "NDH", "page_order = 'NDH', must be one of"),
    ],
)
def test_bad_input_is_refused(field: str, value: Any, says: str) -> None:
    good: dict[str, Any] = {
        "block_table": [[0]],
        "row_index": [0],
        "seq_lens": [3],
        "num_requests": 1,
        "block_size": 4,
        "read_capacity": 3,
        "num_heads": 1,
        "key_units": 4,
        "value_units": 1,
        "units_per_group": 4,
        "page_order": "packed",
    }
    assert len(page_read(**good).keys) == 12
    with pytest.raises(ValueError, match=f"^{re.escape(says)}"):
        page_read(**good | {field: value})


@pytest.mark.parametrize("scale", [1.0, 0.125, 2.827, 1e-3, 3e-38])
def test_every_number_of_fp8_is_restored_to_the_bit(scale: float) -> None:
    codes = np.array([code for code in range(256) if code & 0x7F != 0x7F], np.uint8)
    numbers = torch.from_numpy(codes).view(torch.float8_e4m3fn).float()
    expected = (numbers * torch.tensor(scale, dtype=torch.float32)).bfloat16().view(torch.int16)
    found = [restored_number(code, float(np.float32(scale))) for code in codes.tolist()]
    assert found == (expected.int() & 0xFFFF).tolist()


def test_a_byte_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^code = 255, must be a number of e4m3fn"):
        restored_number(255, 1.0)


def test_a_source_that_no_input_holds_is_refused() -> None:
    case = Case(step(prefill(0, 2, 0)))
    row = OPERATIONS["page_read"]
    inputs, held = Inputs(case), CUMAE.inputs["pages"].hold(Inputs(case))
    assert isinstance(held, Rows)
    assert expected_of(row, row.outputs, inputs, {"pages": held}.__getitem__)["keys"].words.any()
    for count in (0, len(held.live) - 1):
        fewer = replace(held, live=held.live[:count], content=held.content[:count])
        with pytest.raises(ValueError, match=r"^sources = .*, must be live rows of the input"):
            expected_of(row, row.outputs, inputs, {"pages": fewer}.__getitem__)


def last_rows_of_a_short_buffer(
    pages: Tensor,
    block_table: Tensor,
    row_index: Tensor | None,
    seq_lens: Tensor,
    num_requests: int,
    block_size: int,
    num_heads: int,
    window: int,
    page_order: str,
    head_format: str,
    key_scale: float,
    value_scale: float,
    keys: Tensor,
    values: Tensor,
) -> None:
    """A window of a buffer that is too short keeps the newest rows."""
    lens = seq_lens[:num_requests]
    total = int((lens.clamp(max=window) if window else lens).sum())
    count = max(total, len(keys)) if window else len(keys)
    every = [rows.new_zeros((count, *rows.shape[1:])) for rows in (keys, values)]
    for rows, whole in zip((keys, values), every, strict=True):
        whole[count - len(keys) :] = rows
    if count == len(keys):
        every = [keys, values]
    sizes = (num_requests, block_size, num_heads, window, page_order, head_format, key_scale, value_scale)
    right(pages, block_table, row_index, seq_lens, *sizes, *every)
    keys.copy_(every[0][count - len(keys) :])
    values.copy_(every[1][count - len(values) :])


def scale_of_the_keys(
    pages: Tensor,
    block_table: Tensor,
    row_index: Tensor | None,
    seq_lens: Tensor,
    num_requests: int,
    block_size: int,
    num_heads: int,
    window: int,
    page_order: str,
    head_format: str,
    key_scale: float,
    value_scale: float,
    keys: Tensor,
    values: Tensor,
) -> None:
    """Values are multiplied by the scale of the keys."""
    sizes = (num_requests, block_size, num_heads, window, page_order, head_format, key_scale, key_scale)
    right(pages, block_table, row_index, seq_lens, *sizes, keys, values)


@pytest.mark.parametrize(
    ("wrong", "axis"), [(last_rows_of_a_short_buffer, "read_key"), (scale_of_the_keys, "read_value")]
)
def test_a_wrong_one_is_found(wrong: Reader, axis: str) -> None:
    verdict = cumae.check(wrong, "page_read", domain=TORCH, examples=100, save_to=None)
    assert verdict.failure is not None
    assert (verdict.failure.finding.check, verdict.failure.finding.axis) == ("agrees", axis)


def gathered_head_by_head(
    block_table: Tensor,
    seq_lens: Tensor,
    num_reqs: int,
    block_size: int,
    num_kv_heads: int,
    key_cache: Tensor,
    value_cache: Tensor,
    key: Tensor,
    value: Tensor,
) -> None:
    """Write only the rows of keys, as an engine's function does whose buffers are longer."""
    for cache, found in ((key_cache, key), (value_cache, value)):
        tokens = cache.reshape(len(cache), block_size, num_kv_heads, -1)
        row = 0
        for b in range(num_reqs):
            position = torch.arange(int(seq_lens[b]), device=cache.device)
            blocks = block_table[b, position // block_size].long()
            rows = tokens[blocks, position % block_size]
            found[row : row + len(rows)] = rows.view(len(rows), *found.shape[1:])
            row += len(rows)


@wraps(gathered_head_by_head)
def last_row_is_the_first(**given: Any) -> None:
    gathered_head_by_head(**given)
    num_rows = int(given["seq_lens"][: given["num_reqs"]].sum())
    if num_rows:
        given["key"][num_rows - 1] = given["key"][0]


@pytest.mark.parametrize("padding", ["untouched", "any"])
def test_padding_begins_behind_all_heads_of_the_last_key(padding: Any) -> None:
    rows: dict[str, Any] = {"missing_blocks": False, "rowless_requests": False, "window": (0,)}
    heads: dict[str, Any] = {"num_heads": (2, 8), "page_order": ("NHD",), "head_format": ("bf16", "fp32")}
    domain = replace(TORCH, padding=padding, max_requests=8, **rows, **heads)
    how: dict[str, Any] = {"dialect": "vllm", "domain": domain, "examples": 5, "save_to": None}
    how["checks"] = ["agrees", "writes_everything"]
    verdict = cumae.check(gathered_head_by_head, "page_read", **how)
    assert verdict, verdict

    found = cumae.check(last_row_is_the_first, "page_read", **how)
    assert found.failure is not None and "`key[" in found.failure.finding.message


def test_a_dense_cache_is_read_beyond_what_32_bits_count() -> None:
    @wraps(gathered_head_by_head)
    def wrong(**given: Any) -> None:
        table, each = given["block_table"], given["key_cache"][0].numel()
        near = torch.where(table.long() * each >= 2**31, 0, table)
        gathered_head_by_head(**given | {"block_table": near})

    rows: dict[str, Any] = {"missing_blocks": False, "rowless_requests": False, "window": (0,)}
    few: dict[str, Any] = {"max_requests": 8, "page_order": ("NHD",), "head_format": ("bf16",)}
    domain = replace(TORCH, padding="untouched", **few, **rows)
    how: dict[str, Any] = {"dialect": "vllm", "domain": domain, "examples": 3, "save_to": None}
    how["checks"] = ["survives_large_ids"]
    right = cumae.check(gathered_head_by_head, "page_read", **how)
    assert right and not right.notes
    found = cumae.check(wrong, "page_read", **how)
    assert found.failure is not None
    assert "is added to every block id" in found.failure.finding.message

    @wraps(gathered_head_by_head)
    def copies(**given: Any) -> None:
        caches = {name: given[name].clone() for name in ("key_cache", "value_cache")}
        gathered_head_by_head(**given | caches)

    @wraps(gathered_head_by_head)
    def copies_keys(**given: Any) -> None:
        gathered_head_by_head(**given | {"key_cache": given["key_cache"].clone()})

    for function in (copies, copies_keys):
        copied = cumae.check(function, "page_read", **how)
        assert copied and "the function copies caches whole" in copied.notes[0]
        assert f"; note: {copied.notes[0]}" in repr(copied)
