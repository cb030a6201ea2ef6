"""Facts about new rows that hold zeros, -0.0 or NaN alone, or what the row before holds."""

from typing import Any

import numpy as np
import pytest
import torch

from cumae.oracle import Batch, Case, Inputs, Options, Request
from cumae.properties.dialects import DIALECTS
from cumae.properties.dialects.held import Rows

BATCH = Batch((Request(3, 9, (0,)),), 16)


def _words(name: str, dialect: str = "cumae", **options: Any) -> np.ndarray:
    held = DIALECTS[dialect].inputs[name].hold(Inputs(Case(BATCH, options=Options.of(**options))))
    assert isinstance(held, Rows)
    content = held.content.reshape(12 if name == "pages" else 9, -1)  # what is read, and what is new
    return content.view(np.uint16)


@pytest.mark.parametrize(
    ("name", "dialect", "options"),
    [
        ("new_latents", "cumae", {"odd_rows": True}),
        ("new_rows", "cumae", {"odd_rows": True}),
        ("compressed_kv", "fastdeploy", {"odd_rows": True}),
        ("key_pe", "fastdeploy", {"odd_rows": True}),
        ("new_keys", "cumae", {"odd_heads": True, "num_heads": 3}),
        ("new_values", "cumae", {"odd_heads": True, "num_heads": 3}),
        ("pages", "cumae", {"odd_heads": True, "num_heads": 3}),
        ("pages", "cumae", {"odd_heads": True, "page_order": "packed"}),
    ],
)
def test_tokens_have_zeros_both_ways_a_row_that_comes_again_and_nan(
    name: str, dialect: str, options: dict[str, Any]
) -> None:
    words = _words(name, dialect, **options)
    assert {*words[0]} == {*words[7]} == {0} and {*words[4]} == {0x8000} and {*words[6]} == {0x7FC0}
    assert (words[1] == words[2]).all()
    usual = _words(
        name, dialect, **{key: value for key, value in options.items() if not key.startswith("odd")}
    )
    assert all((usual[t] == words[t]).all() for t in (1, 3, 5, 8))
    assert all(len({*row}) > 5 for row in usual)


@pytest.mark.parametrize("head_format", ["bf16", "fp16", "fp32"])
@pytest.mark.parametrize("name", ["new_keys", "pages"])
def test_usual_numbers_may_be_infinite_but_not_nan(name: str, head_format: str) -> None:
    case = Case(Batch((Request(3, 9, (0,)),), 16), options=Options.of(head_format=head_format, num_heads=64))
    held = DIALECTS["cumae"].inputs[name].hold(Inputs(case))
    assert isinstance(held, Rows) and len(held.content)
    bits = torch.from_numpy(held.content.copy())
    numbers = bits.view({"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}[head_format])
    assert not numbers.isnan().any() and (numbers.abs() > numbers.abs().median()).any()
    masked = numbers * torch.ones((), dtype=torch.bool)
    assert (masked.contiguous().view(torch.uint8) == bits.view(torch.uint8)).all()


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("new_latents", {"odd_rows": True, "row_format": "fp8"}),
        ("new_keys", {"odd_heads": True, "head_format": "fp8_own"}),
    ],
)
def test_numbers_that_are_scaled_are_finite(name: str, options: dict[str, Any]) -> None:
    words = _words(name, **options)
    assert {*words[0]} == {0} and {*words[4]} == {0x8000} and (words[1] == words[2]).all()
    assert ((words[:, :512] & 0x7F80) != 0x7F80).all()  # the others are copied
