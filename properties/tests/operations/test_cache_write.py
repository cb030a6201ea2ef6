"""New rows in a paged cache: what is written wrongly is caught, and what was written is read back."""

import struct
from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch

from cumae import gpu_impl, oracle
from cumae.oracle import ROW_FORMATS, Batch, Case, Inputs, Options, Request, RowFormat
from cumae.oracle.fp8_row import bf16_value, e4m3_code, scale_of
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.seeded import seeded_cases
from cumae.properties.dialects.cumae import row_dtype
from cumae.properties.dialects.held import ITEM_BYTES
from cumae.properties.dialects.latents import new_latents
from cumae.properties.operations.binding import binding_of
from cumae.properties.operations.enlarged import far_cache_rows
from cumae.properties.running.device import prepare
from cumae.properties.running.tensors import tensors
from cumae.properties.search.direct import check

DEVICE = prepare("auto")
FORMATS = Domain(row_format=("bf16", "fp8"), strided=False, captured=False)
ROW_WORDS = torch.int16
Write = Callable[..., None]


def _fp8(
    latents: torch.Tensor,
    *,
    least: float = 2.0**-126,
    by_reciprocal: bool = False,
    half_up: bool = False,
    whole_row: bool = False,
) -> torch.Tensor:
    tiles = latents[:, :512].float().reshape(-1, 4, 128)
    amax = tiles.abs().amax((1, 2)).repeat(4, 1).T if whole_row else tiles.abs().amax(2)
    scale = amax / torch.full_like(amax, 448)  # by a number torch divides through its reciprocal, on a GPU
    scale = scale.clamp(min=least).contiguous()
    quotient = tiles * (1 / scale[:, :, None]) if by_reciprocal else tiles / scale[:, :, None]
    if half_up:
        quotient = torch.nextafter(quotient, quotient.sign() * 1000)
    codes = quotient.clamp(-448, 448).to(torch.float8_e4m3fn).view(torch.uint8).reshape(-1, 512)
    kept = latents[:, 512:].contiguous().view(torch.uint8)
    return torch.cat([codes, scale.view(torch.uint8).reshape(-1, 16), kept], dim=1)


def writes(
    keep: Callable[[torch.Tensor], torch.Tensor] = lambda slots: slots >= 0, shift: int = 0, **fp8: Any
) -> Write:
    """Return a function that writes rows whose slots are kept, each ``shift`` slots further."""

    def write(new_latents: torch.Tensor, slot_mapping: torch.Tensor, cache: torch.Tensor) -> None:
        count = min(len(new_latents), len(slot_mapping))
        slots, size = slot_mapping[:count], cache.shape[1]
        is_fp8 = cache.dtype == torch.uint8
        rows = (_fp8(new_latents, **fp8) if is_fp8 else new_latents.view(ROW_WORDS))[:count]
        kept = keep(slots)
        target = (slots[kept] + shift) % max(cache.shape[0] * size, 1)
        if kept.any():
            (cache if is_fp8 else cache.view(ROW_WORDS))[target // size, target % size] = rows[kept]

    return write


WRONG = [
    ("a negative slot is the last one", {"keep": lambda slots: slots >= -1}, "agrees writes_everything"),
    ("slot 0 is taken for none", {"keep": lambda slots: slots > 0}, "writes_everything"),
    ("the slot behind", {"shift": 1}, "agrees writes_everything"),
    ("one scale a row", {"whole_row": True}, "agrees"),
    ("the least scale of vLLM's other format", {"least": 1e-4}, "agrees"),
    ("a product with the reciprocal", {"by_reciprocal": True}, "agrees"),
    ("halves are rounded away from zero", {"half_up": True}, "agrees"),
]


def verdict(function: Write) -> Any:
    return check(function, "cache_write", domain=FORMATS, examples=30, save_to=None)


def test_of_a_row_the_bytes_that_differ_are_told() -> None:
    failure = check(
        writes(by_reciprocal=True), "cache_write", domain=FORMATS, examples=30, save_to=None
    ).failure
    assert failure is not None
    assert failure.finding.expected.startswith("from byte ")
    assert failure.finding.expected != failure.finding.actual


def test_rows_written_to_their_slots_pass() -> None:
    assert verdict(writes()).ok


@pytest.mark.parametrize(("how", "checks"), [wrong[1:] for wrong in WRONG], ids=[wrong[0] for wrong in WRONG])
def test_what_is_written_wrongly_fails(how: dict[str, Any], checks: str) -> None:
    found = verdict(writes(**how))
    assert found.failure is not None
    assert found.failure.finding.check in checks.split()


def test_rows_read_back_in_the_next_step_are_those_that_were_written() -> None:
    case = Case(Batch((Request(3, 4, (5, 2, 7)), Request(0, 2, (4,)), Request(2, 1, (1, 3), "decode")), 3))
    inputs, width = Inputs(case), 576
    generator = torch.Generator().manual_seed(0)
    cache = torch.randn((case.num_cache_blocks, 3, width), generator=generator).to(DEVICE)
    rows = torch.randn((case.batch.num_tokens, width), generator=generator).to(DEVICE)
    before = cache.clone()
    slots = torch.tensor(inputs["slot_mapping"], device=DEVICE)
    gpu_impl.write_cache(rows, slots, cache, False)
    later = Case(Batch(tuple(Request(r.seq_len, 0, r.block_ids) for r in case.batch.requests), 3))
    names = ("block_table", "cu_seqlens_q", "cu_seqlens_k", "context_lens", "max_context_len")
    read = tensors(later, "cumae", DEVICE, names)
    found = torch.full((Inputs(later)["capacity"], width), torch.nan, device=DEVICE)
    gpu_impl.write_prefix_interleave(cache, rows[:0], keys=found, **read)
    row = 0
    for b, request in enumerate(case.batch.requests):
        first = int(read["cu_seqlens_k"][b])
        for position in range(request.seq_len):
            block = request.block_ids[position // 3]
            is_new = position >= request.context_len
            wanted = rows[row] if is_new else before[block, position % 3]
            assert torch.equal(found[first + position], wanted)
            row += is_new


def test_the_oracle_refuses_a_slot_that_is_not_there_and_one_that_stands_twice() -> None:
    with pytest.raises(ValueError, match=r"slot_mapping\[1\] = 8, must be < num_cache_slots = 8"):
        oracle.cache_write([0, 8], 2, 8)
    with pytest.raises(ValueError, match=r"slot_mapping\[2\] = 3, must occur once"):
        oracle.cache_write([3, -1, 3], 3, 8)


@pytest.mark.parametrize("bits", [0x7F80, 0xFF80, 0x7FC0])
def test_what_is_not_finite_is_refused(bits: int) -> None:
    with pytest.raises(ValueError, match=r"latents\[7\] = .*, must be finite"):
        oracle.fp8_row((0,) * 7 + (bits,) + (0,) * 568)
    assert oracle.fp8_row((0,) * 575 + (bits,))[-2:] == struct.pack("<H", bits)


def test_every_bf16_beside_torch() -> None:
    """torch rounds to e4m3fn as the rule says, up to 448."""
    bits = [b for b in range(2**16) if b & 0x7F80 != 0x7F80]
    values = torch.tensor([bf16_value(b) for b in bits], dtype=torch.float32).clamp(-448, 448)
    theirs = values.to(torch.float8_e4m3fn).view(torch.uint8).tolist()
    assert [e4m3_code(bf16_value(b)) for b in bits] == theirs


def test_scales_at_the_edges() -> None:
    assert scale_of([0.0], power_of_two=False) == 2.0**-126
    assert scale_of([0.0], power_of_two=True) == 2.0**-13
    assert scale_of([448.0 * 4], power_of_two=True) == 4.0
    assert scale_of([448.0 * 4.0625], power_of_two=True) == 8.0


def test_latents_to_quantise_are_finite_and_of_every_kind() -> None:
    kinds: set[str] = set()
    binding = binding_of(gpu_impl.write_cache, "cache_write")
    for case in islice(seeded_cases(5, Domain(row_format=("fp8",)), binding.features), 60):
        held = new_latents(Inputs(case))
        bits = held.content.view(np.uint16).astype(np.int64)[:, :512].reshape(-1, 4, 128)
        exponents = bits >> 7 & 0xFF
        assert (exponents < 255).all()
        for tile, powers in zip(bits.reshape(-1, 128), exponents.reshape(-1, 128), strict=True):
            magnitudes = tile & 0x7FFF
            kinds |= {"zeros"} if not magnitudes.any() else set()
            kinds |= {"subnormal"} if magnitudes.any() and not powers.any() else set()
            kinds |= {"largest"} if magnitudes.max() == 0x7F7F else set()
            kinds |= {"scale is a power of two"} if magnitudes.max() & 0x7F == 0x60 else set()
            beside = magnitudes.max() & 0x7F == 0x78 and (magnitudes & 0x7F == 0x3A).sum() == 127
            kinds |= {"beside halfway"} if beside else set()
    assert kinds == {"zeros", "subnormal", "largest", "scale is a power of two", "beside halfway"}


def test_a_rounded_scale_moves_a_number_from_halfway_to_the_byte_above() -> None:
    """Exactly, 186 * 448 / 248 is 336, between 320 and 352, which goes to 320, the even one."""
    quotient = np.float32(186) / (np.float32(248) / np.float32(448))
    assert quotient == np.nextafter(np.float32(336), np.float32(448))
    bits = [int(np.float32(value).view(np.int32)) >> 16 for value in (248, 186)]
    assert list(oracle.fp8_row((*bits, *[0] * 574))[:2]) == [e4m3_code(448.0), e4m3_code(352.0)]
    assert e4m3_code(336.0) == e4m3_code(320.0)


def test_options_of_rows_that_have_no_scales_are_refused() -> None:
    with pytest.raises(ValueError, match="power_of_two_scales = True, must be false for fp16 rows"):
        Options.of(row_format="fp16", power_of_two_scales=True)


@pytest.mark.parametrize("row_format", ROW_FORMATS)
def test_a_dense_cache_beyond_2_to_the_31_fits_a_gpu(row_format: RowFormat) -> None:
    case = Case(Batch((Request(0, 1, (1,), "prefill"),), 4), options=Options.of(row_format=row_format))
    (far,) = far_cache_rows(case)
    dtype, width = row_dtype(far)
    slot = far.batch.requests[0].block_ids[0] * 4
    assert slot * width >= 2**31 and far.num_cache_blocks * 4 * width * ITEM_BYTES[dtype] < 20 * 10**9
