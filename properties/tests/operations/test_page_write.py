"""Keys and values in pages: facts of the orders and of scaled heads, wrong writers, refused arguments."""

import re
from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch

import cumae
from cumae.fixtures.correct.page_rows import page_write as right
from cumae.gpu_impl import write_pages
from cumae.oracle import PAGE_ORDERS, UNTOUCHED, PageOrder, page_units, page_write, scaled_head
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.seeded import seeded_cases
from cumae.properties.operations.binding import binding_of
from cumae.properties.running.device import prepare

DEVICE = prepare("auto")
TORCH = Domain(captured=False, strided=False, max_tokens=32, max_context_len=32, max_query_len=16)
Tensor = torch.Tensor
FINITE = np.array([bits for bits in range(65536) if bits & 0x7F80 != 0x7F80], np.uint16)
# The largest number, two beside 127 and 448, one beside 1, a subnormal, and one whose scale is near 1e-6.
LARGEST = (0x7F7F, 0x42FF, 0x43E1, 0x3F82, 0x0041, 0x3905)


class TestOrders:
    @pytest.mark.parametrize("order", PAGE_ORDERS)
    def test_an_order_holds_every_unit_once(self, order: PageOrder) -> None:
        units = list(page_units(order, 8, 3, 8, 2, 4))
        assert len(units) == len(set(units)) == 8 * 3 * (8 + 2)

    def test_a_block_of_one_token_and_head_has_one_order(self) -> None:
        assert len({tuple(page_units(order, 1, 1, 4, 2, 4)) for order in PAGE_ORDERS[:4]}) == 1

    def test_shuffled_pages_of_one_group_are_packed(self) -> None:
        assert list(page_units("shuffled", 4, 2, 8, 3, 4)) == list(page_units("packed", 4, 2, 8, 3, 4))

    @pytest.mark.parametrize(
        ("field", "value", "says"),
        [
            ("num_heads", 0, "num_heads = 0, must be >= 1"),
            ("key_units", 6, "key_units = 6, must be a multiple of a group of 4"),
            ("units_per_group", 0, "key_units = 4, must be a multiple of a group of 0"),
            ("block_size", 3, "block_size = 3, must be a multiple of a group of 4"),
            ("page_order", "NDH", "page_order = 'NDH', must be one of"),
            ("slot_mapping", [8], "slot_mapping[0] = 8, must be < num_cache_slots = 8"),
        ],
    )
    def test_bad_input_is_refused(self, field: str, value: Any, says: str) -> None:
        good: dict[str, Any] = {
            "slot_mapping": [1],
            "num_new_rows": 1,
            "num_cache_blocks": 2,
            "block_size": 4,
            "num_heads": 1,
            "key_units": 4,
            "value_units": 1,
            "units_per_group": 4,
            "page_order": "shuffled",
        }
        assert sum(unit is not UNTOUCHED for unit in page_write(**good).pages) == 5
        with pytest.raises(ValueError, match=f"^{re.escape(says)}"):
            page_write(**good | {field: value})


class TestScaledHeads:
    def test_a_scale_is_at_least_a_millionth(self) -> None:
        assert scaled_head([0], "int8_own") == bytes(1) + np.float32(1e-6).tobytes()

    def test_halves_are_rounded_away_from_zero(self) -> None:
        bits = [0x42FE, 0x3F00, 0xBF00, 0x3FC0]  # 127, so that the scale is 1, then 0.5, -0.5 and 1.5
        assert np.frombuffer(scaled_head(bits, "int8_own")[:4], np.int8).tolist() == [127, 1, -1, 2]

    def test_fp8_is_cut_off_at_448(self) -> None:
        assert scaled_head([0x7F7F, 0xFF7F], "fp8", 1e-3).hex() == "7efe"

    @pytest.mark.parametrize("head_format", ["fp8", "fp8_own", "int8_own"])
    def test_numbers_must_be_finite(self, head_format: Any) -> None:
        with pytest.raises(ValueError, match=re.escape("numbers[1] = inf, must be finite")):
            scaled_head([0, 0x7F80], head_format)


def heads_of(largest: int, width: int = 128) -> np.ndarray:
    """Return heads of ``largest`` and, together, every bf16 number of no larger magnitude, as bits."""
    within = FINITE[(FINITE & 0x7FFF) <= largest]
    heads = np.full((-(-len(within) // (width - 1)), width), largest, np.uint16)
    for i, head in enumerate(heads):
        part = within[(width - 1) * i : (width - 1) * (i + 1)]
        head[1 : 1 + len(part)] = part
    return heads


def stored(heads: np.ndarray, head_format: str, scale: float) -> np.ndarray:
    """Return heads as bytes, by NumPy in fp32 and torch's cast on the CPU."""
    x = (heads.astype(np.uint32) << 16).view(np.float32)
    with np.errstate(over="ignore"):
        if head_format == "fp8":
            y, own = x / np.float32(scale), None
        else:
            most = np.float32(127 if head_format == "int8_own" else 448)
            own = np.maximum(np.abs(x).max(axis=1, keepdims=True) / most, np.float32(1e-6))
            y = x * (np.float32(1) / own)
    if head_format == "int8_own":
        found = np.trunc(y + np.copysign(np.float32(0.5), y)).astype(np.int8).view(np.uint8)
    else:
        clipped = torch.from_numpy(np.clip(y, -448, 448))
        found = clipped.to(torch.float8_e4m3fn).view(torch.uint8).numpy()
    return found if own is None else np.concatenate([found, own.view(np.uint8)], axis=1)


@pytest.mark.usefixtures("watched")
@pytest.mark.parametrize(
    ("head_format", "scale"), [("int8_own", 1.0), ("fp8_own", 1.0), ("fp8", 0.125), ("fp8", 2.827)]
)
def test_every_bf16_number_is_scaled_to_the_bit(head_format: Any, scale: float) -> None:
    heads = np.concatenate([heads_of(largest) for largest in LARGEST])
    keys = torch.from_numpy(heads.view(np.int16)).view(torch.bfloat16).unsqueeze(1).to(DEVICE)
    expected = stored(heads, head_format, scale)
    pages = torch.full((len(heads), 1, 2 * expected.shape[1]), 0xAA, dtype=torch.uint8, device=DEVICE)
    slots = np.random.default_rng(0).permutation(len(heads))
    rows = torch.from_numpy(slots).to(DEVICE)
    write_pages(keys, keys, rows, pages, 1, "joined", head_format, scale, scale)
    np.testing.assert_array_equal(pages.cpu().numpy()[slots, 0], np.concatenate([expected, expected], axis=1))
    some = range(0, len(heads), 97)
    assert [scaled_head(heads[i].tolist(), head_format, float(np.float32(scale))) for i in some] == [
        expected[i].tobytes() for i in some
    ]


def heads_between_tokens(
    new_keys: Tensor,
    new_values: Tensor,
    slot_mapping: Tensor,
    pages: Tensor,
    block_size: int,
    page_order: str,
    head_format: str,
    key_scale: float,
    value_scale: float,
) -> None:
    order = "NHD" if page_order == "HND" else page_order
    rest = (block_size, order, head_format, key_scale, value_scale)
    right(new_keys, new_values, slot_mapping, pages, *rest)


def one_scale_for_both(
    new_keys: Tensor,
    new_values: Tensor,
    slot_mapping: Tensor,
    pages: Tensor,
    block_size: int,
    page_order: str,
    head_format: str,
    key_scale: float,
    value_scale: float,
) -> None:
    rest = (block_size, page_order, head_format, key_scale, key_scale)
    right(new_keys, new_values, slot_mapping, pages, *rest)


def last_slot_for_none(
    new_keys: Tensor,
    new_values: Tensor,
    slot_mapping: Tensor,
    pages: Tensor,
    block_size: int,
    page_order: str,
    head_format: str,
    key_scale: float,
    value_scale: float,
) -> None:
    slots = torch.where(slot_mapping < 0, len(pages) * block_size - 1, slot_mapping)
    rest = (block_size, page_order, head_format, key_scale, value_scale)
    right(new_keys, new_values, slots, pages, *rest)


def what_the_cache_held(
    new_keys: Tensor,
    new_values: Tensor,
    slot_mapping: Tensor,
    pages: Tensor,
    block_size: int,
    page_order: str,
    head_format: str,
) -> None:
    byte = torch.full_like(new_keys, 0xAA)  # which the cache holds before the first call on a usual case
    right(byte, byte, slot_mapping, pages, block_size, page_order, head_format, 1.0, 1.0)


def test_a_wrong_byte_that_was_there_before_is_not_called_unwritten() -> None:
    domain = TORCH.having(head_format=("bytes",), head_dims=((1, 1),), num_heads=(1,), min_tokens=1)
    verdict = cumae.check(what_the_cache_held, "page_write", domain=domain, examples=20, save_to=None)
    assert verdict.failure is not None
    assert "differs from the oracle" in verdict.failure.finding.message
    assert verdict.failure.finding.actual.strip() == "aa"


@pytest.mark.parametrize("wrong", [heads_between_tokens, one_scale_for_both])
def test_a_wrong_one_is_found(wrong: Callable[..., Any]) -> None:
    verdict = cumae.check(wrong, "page_write", domain=TORCH, examples=60, save_to=None)
    assert verdict.failure is not None
    assert verdict.failure.finding.check == "agrees"
    assert verdict.failure.finding.axis == "page_unit"


def test_drawn_scales_tell_a_quotient_from_a_product_with_the_reciprocal() -> None:
    binding = binding_of(write_pages, "page_write")
    fp8 = Domain(head_format=("fp8",), page_order=("NHD",))
    drawn = islice(seeded_cases(1, fp8, binding.features), 60)
    x = torch.from_numpy(FINITE.astype(np.int16)).view(torch.bfloat16).float()

    def rounded(y: Tensor) -> Tensor:
        return y.clamp(-448, 448).to(torch.float8_e4m3fn).view(torch.uint8)

    scales = {case.options.heads.key_scale_thousandths for case in drawn}
    fp32 = [torch.tensor(scale / 1000, dtype=torch.float32) for scale in scales]
    assert any(not torch.equal(rounded(x / one), rounded(x * (1 / one))) for one in fp32)


# On a GPU, two writes of one unit race, and a check that launches again may see it first.
RACED = ("agrees", "writes_everything", "ignores_garbage", "is_deterministic")


def at_wrapped_offsets(
    new_keys: Tensor,
    new_values: Tensor,
    slot_mapping: Tensor,
    pages: Tensor,
    block_size: int,
    page_order: str,
    head_format: str,
    key_scale: float,
    value_scale: float,
) -> None:
    offsets = slot_mapping // block_size * pages.shape[1]
    slots = torch.where(offsets.int() == offsets, slot_mapping, -1)
    rest = (block_size, page_order, head_format, key_scale, value_scale)
    right(new_keys, new_values, slots, pages, *rest)


def test_a_dense_cache_is_written_beyond_what_32_bits_count() -> None:
    how: dict[str, Any] = {"checks": ["survives_large_ids"], "examples": 12, "save_to": None}
    assert cumae.check(right, "page_write", domain=TORCH, **how).comparisons > 0
    failure = cumae.check(at_wrapped_offsets, "page_write", domain=TORCH, **how).failure
    assert failure is not None
    assert "is added to every block id" in failure.finding.message
    assert "Domain(max_block_id=65535)" in failure.finding.left_out_by
    assert failure.finding.raised_by == 0 and max(failure.finding.wrong) < failure.finding.total


def test_a_write_without_a_slot_is_found() -> None:
    domain = TORCH.having(head_format=("bf16",), num_heads=(1,))
    verdict = cumae.check(last_slot_for_none, "page_write", domain=domain, examples=30, save_to=None)
    assert verdict.failure is not None
    assert verdict.failure.finding.check in RACED
