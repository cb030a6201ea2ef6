"""Small kernels for the linter: each breaks one rule in the line that says so, or none. None runs."""

import torch
import triton
import triton.language as tl


@triton.jit
def _times_stride(rows: tl.tensor, out: tl.tensor, stride: tl.tensor, WIDTH: tl.constexpr) -> None:
    row = tl.load(rows + tl.program_id(0)).to(tl.int32)
    if WIDTH == 32:
        tl.store(out + row * stride, 1)  # breaks
    elif WIDTH == 33:
        offset = row * stride  # breaks
        tl.store(out + offset.to(tl.int64), 1)
    else:
        tl.store(out + row.to(tl.int64) * stride, 1)


@triton.jit
def _shifted(rows: tl.tensor, out: tl.tensor) -> None:
    row = tl.load(rows + tl.program_id(0)).to(tl.int32)
    tl.store(out + (row << 4), 1)  # breaks


@triton.jit
def _stored_wide(rows: tl.tensor, out: tl.tensor, size: tl.tensor) -> None:
    row = tl.load(rows + tl.program_id(0)).to(tl.int32)
    slot = row * size  # breaks
    tl.store(out + tl.program_id(0), slot.to(tl.int64))


@triton.jit
def _carried(rows: tl.tensor, out: tl.tensor, num_rows: tl.tensor, stride: tl.tensor) -> None:
    offset = 0
    for i in range(num_rows):
        if i > 3:
            offset += tl.load(rows + i).to(tl.int32) * stride  # breaks
        tl.store(out + offset, 1)


@triton.jit(noinline=True)
def _offset(row: tl.tensor, stride: tl.tensor) -> tl.tensor:
    return row * stride  # breaks


@triton.jit
def _called(rows: tl.tensor, out: tl.tensor, stride: tl.tensor) -> None:
    tl.store(out + _offset(tl.load(rows).to(tl.int32), stride), 1)


@triton.jit
def _bounded(rows: tl.tensor, out: tl.tensor, stride: tl.tensor, EACH: tl.constexpr) -> None:
    row = tl.load(rows + tl.program_id(0)).to(tl.int32)
    tl.store(out + tl.program_id(0) * EACH + row % 64 * 1024, 1, mask=row * stride > 0)


@triton.jit
def _program_rows(out: tl.tensor, EACH: tl.constexpr) -> None:
    tl.store(out + tl.program_id(0) * EACH, 1)  # breaks


@triton.jit
def _undefined(rows: tl.tensor, out: tl.tensor, num_rows: tl.tensor, USE: tl.constexpr) -> None:
    o_row = tl.arange(0, 16)
    m_row = o_row < num_rows
    row = tl.load(rows + o_row, mask=m_row)  # breaks
    if USE == "sum":
        tl.store(out, tl.sum(row))
    elif USE == "address":
        tl.store(out + row, 1)
    elif USE == "wider store":
        tl.store(out + o_row, row)
    elif USE == "mask":
        tl.store(out + o_row, 1, mask=row > 0)
    elif USE == "branch":
        if tl.load(rows, mask=num_rows > 0) > 0:  # breaks
            tl.store(out, 1)
    elif USE == "other axis":
        value = tl.broadcast_to(row[:, None], (16, 16))
        place = out + o_row[:, None] * 16 + o_row[None, :]
        tl.store(place, value, mask=tl.broadcast_to(m_row[None, :], (16, 16)))
    elif USE == "next round":
        for i in range(4):
            m_other = tl.arange(0, 16) < i
            tl.store(out + o_row, row, mask=m_other)
            row = tl.load(rows + o_row, mask=m_other)  # breaks
    elif USE == "same mask":
        tl.store(out + o_row, row + 1, mask=m_row)
        tl.store(out + row, 1, mask=m_row & (row > 0))
    elif USE == "chosen away":
        tl.store(out, tl.sum(tl.where(m_row & (row > 0), row, 0)))
    elif USE == "same mask, turned":
        value = tl.broadcast_to(row[:, None], (16, 16))
        place = out + o_row[:, None] * 16 + o_row[None, :]
        tl.store(place, value, mask=m_row[:, None] & (o_row < 9)[None, :])


@triton.jit
def _constant(out: tl.tensor, NUMBER: tl.constexpr) -> None:  # breaks
    tl.store(out, NUMBER)


@triton.jit
def _fp8(out: tl.tensor) -> None:
    place = out + tl.arange(0, 16)
    rounded = tl.load(place).to(tl.float32).to(tl.float8e4nv)
    tl.store(place, rounded.to(tl.float32).to(tl.int64))


@triton.jit
def _uneven(out: tl.tensor, EACH: tl.constexpr) -> None:
    tl.store(out + tl.arange(0, EACH), 1)


def narrow(token_to_request: torch.Tensor, position_ids: torch.Tensor) -> None:
    _times_stride[(4,)](token_to_request, position_ids, 7, WIDTH=32)


def widened_late(token_to_request: torch.Tensor, position_ids: torch.Tensor) -> None:
    _times_stride[(4,)](token_to_request, position_ids, 7, WIDTH=33)


def wide(token_to_request: torch.Tensor, position_ids: torch.Tensor) -> None:
    _times_stride[(4,)](token_to_request, position_ids, 7, WIDTH=64)


def shifted(token_to_request: torch.Tensor, position_ids: torch.Tensor) -> None:
    _shifted[(4,)](token_to_request, position_ids)


def stored_wide(token_to_request: torch.Tensor, position_ids: torch.Tensor) -> None:
    _stored_wide[(4,)](token_to_request, position_ids, 16)


def carried(token_to_request: torch.Tensor, position_ids: torch.Tensor) -> None:
    _carried[(1,)](token_to_request, position_ids, 9, 16)


def called(token_to_request: torch.Tensor, position_ids: torch.Tensor) -> None:
    _called[(1,)](token_to_request, position_ids, 16)


def bounded(token_to_request: torch.Tensor, position_ids: torch.Tensor) -> None:
    _bounded[(token_to_request.numel(),)](token_to_request, position_ids, 9, EACH=512)


def too_many_programs(position_ids: torch.Tensor) -> None:
    _program_rows[(position_ids.numel(),)](position_ids, EACH=4096)


def grows(context_lens: torch.Tensor, position_ids: torch.Tensor) -> None:
    _constant[(1,)](position_ids, NUMBER=context_lens.numel())


def grows_by_powers(context_lens: torch.Tensor, position_ids: torch.Tensor) -> None:
    _constant[(1,)](position_ids, NUMBER=triton.next_power_of_2(context_lens.numel()))


def has_fp8(position_ids: torch.Tensor) -> None:
    _fp8[(1,)](position_ids)


def never_compiles(position_ids: torch.Tensor) -> None:
    _uneven[(1,)](position_ids, EACH=3)


def launches_nothing(position_ids: torch.Tensor) -> None:
    position_ids.zero_()


def undefined(use: str, rows: torch.Tensor, out: torch.Tensor) -> None:
    _undefined[(1,)](rows, out, 9, USE=use)
