"""The launcher that writes pages refuses bad input, and leaves empty steps alone."""

import re
from typing import Any

import pytest
import torch

from cumae.gpu_impl import write_pages
from cumae.properties.running.device import prepare

DEVICE = prepare("auto")
Tensor = torch.Tensor


def arguments() -> dict[str, Any]:
    """Arguments that the launcher accepts."""
    return {
        "new_keys": torch.ones(2, 1, 16, dtype=torch.bfloat16, device=DEVICE),
        "new_values": torch.ones(2, 1, 8, dtype=torch.bfloat16, device=DEVICE),
        "slot_mapping": torch.tensor([9, -1], device=DEVICE),
        "pages": torch.zeros(2, 8 * 24, dtype=torch.bfloat16, device=DEVICE),
        "block_size": 8,
        "page_order": "shuffled",
        "head_format": "bf16",
        "key_scale": 1.0,
        "value_scale": 1.0,
    }


def bf16(*shape: int) -> Tensor:
    """Zeros on the device, for views whose strides a copy to it would not keep."""
    return torch.zeros(*shape, dtype=torch.bfloat16, device=DEVICE)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"block_size": 0}, "block_size = 0"),
        ({"block_size": 4}, "block_size = 4, must be a multiple of 8 for shuffled pages"),
        ({"page_order": "NDH"}, "page_order = 'NDH'"),
        ({"head_format": "int4"}, "head_format = 'int4'"),
        ({"head_format": "fp16"}, "new_keys.dtype = torch.bfloat16"),
        ({"head_format": "int8_own"}, "page_order = 'shuffled', must be NHD or HND or joined"),
        ({"head_format": "int8_own", "page_order": "NHD"}, "pages.dtype = torch.bfloat16"),
        ({"new_keys": torch.ones(2, 1, 12, dtype=torch.bfloat16)}, "head_dim = 12, must be a multiple of 8"),
        ({"new_values": torch.ones(3, 1, 8, dtype=torch.bfloat16)}, "new_values.shape = (3, 1, 8)"),
        ({"new_values": torch.ones(2, 2, 8, dtype=torch.bfloat16)}, "new_values.shape = (2, 2, 8)"),
        ({"slot_mapping": torch.zeros(2, dtype=torch.int32)}, "slot_mapping.dtype = torch.int32"),
        ({"pages": torch.zeros(2, 200, dtype=torch.bfloat16)}, "pages.shape = (2, 200)"),
        ({"pages": lambda: bf16(192, 2).t()}, "pages.stride() = (1, 2)"),
        ({"pages": lambda: bf16(192).expand(2, 192)}, "pages.stride() = (0, 1)"),
        ({"new_keys": lambda: bf16(2, 1, 32)[..., ::2]}, "new_keys.stride() = (32, "),
    ],
)
def test_the_launcher_refuses_bad_input_before_it_writes(fields: dict[str, Any], says: str) -> None:
    good = arguments()
    write_pages(**good)
    assert good["pages"][0].eq(0).all()
    assert good["pages"][1].sum() == 24
    moved = {name: value.to(DEVICE) if isinstance(value, Tensor) else value for name, value in fields.items()}
    made = {name: value() for name, value in moved.items() if callable(value)}
    bad = arguments() | moved | made
    with pytest.raises(ValueError, match=rf"{re.escape(says)}.*"):
        write_pages(**bad)
    assert bad["pages"].eq(0).all()


def test_scales_must_lie_on_multiples_of_four_bytes() -> None:
    whole = torch.zeros(2 * 50, dtype=torch.uint8, device=DEVICE)
    keys = torch.ones(2, 1, 8, dtype=torch.bfloat16, device=DEVICE)
    slots = torch.tensor([0, 1], device=DEVICE)
    pages = whole.as_strided((2, 24), (50, 1))
    with pytest.raises(ValueError, match=re.escape("pages.stride() = (50, 1), must keep scales on")):
        write_pages(keys, keys, slots, pages, 1, "NHD", "fp8_own", 1.0, 1.0)
    with pytest.raises(ValueError, match=re.escape("head_dim = 6, must be a multiple of 4 for fp8_own")):
        write_pages(keys[:, :, :6], keys, slots, pages, 1, "NHD", "fp8_own", 1.0, 1.0)


def test_an_empty_step_writes_nothing() -> None:
    good = arguments()
    for empty in ({"slot_mapping": good["slot_mapping"][:0]}, {"pages": good["pages"][:0]}):
        write_pages(**good | empty)
    assert good["pages"].eq(0).all()
