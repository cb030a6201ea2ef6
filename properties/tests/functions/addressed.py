"""Kernels that reach tensors through addresses, as engines' do, right and wrong; and widths of arguments."""

import torch
import triton
import triton.language as tl


@triton.jit
def _pointer(addresses: tl.tensor, element: tl.dtype) -> tl.tensor:
    return tl.multiple_of(tl.cast(tl.load(addresses), tl.pointer_type(element)), 4)


@triton.jit
def gathers(addresses: tl.tensor, answer: tl.tensor, num_values: tl.tensor, FROM: tl.constexpr) -> None:
    """Copies four values of the tensor that each program's address names, from element ``FROM`` on."""
    o_value = tl.arange(0, 4)
    there = _pointer(addresses + tl.program_id(0), tl.int32)
    values = tl.load(there + FROM + o_value, mask=o_value < num_values, other=-1)
    tl.store(answer + tl.program_id(0) * 4 + o_value, values)


@triton.jit
def scatters(addresses: tl.tensor, FROM: tl.constexpr) -> None:
    """Writes, and adds, to two tensors by one block of pointers, selected and reshaped on the way."""
    o_table, o_value = tl.arange(0, 2), tl.arange(0, 4)
    words = tl.load(addresses + o_table, mask=o_table < 2, other=0)
    there = words.to(tl.pointer_type(tl.int32))[:, None] + FROM + o_value[None, :]
    there = tl.where(o_value[None, :] >= 0, there, there)
    there = tl.reshape(tl.trans(there), (8,))
    tl.store(there, 5)
    tl.atomic_add(there, 1)
    tl.atomic_cas(there, tl.full((8,), 6, tl.int32), tl.full((8,), 7, tl.int32))


@triton.jit
def offsets_in_bytes(addresses: tl.tensor, answer: tl.tensor, offset: tl.tensor) -> None:
    """Reckons in integers before it makes the pointer, and takes the address back out of it."""
    word = tl.load(addresses)
    there = (word + offset).to(tl.pointer_type(tl.int32))
    tl.store(answer, tl.load(there))
    tl.store(answer + 1, ((there + 1).to(tl.int64) - word.to(tl.int64)).to(tl.int32))


@triton.jit
def keeps_a_pointer(addresses: tl.tensor, answer: tl.tensor) -> None:
    """Stores a pointer as such."""
    there = tl.load(addresses).to(tl.pointer_type(tl.int32))
    tl.store(answer.to(tl.pointer_type(tl.pointer_type(tl.int32))), there + 1)


@triton.jit
def forges(address: tl.tensor, addresses: tl.tensor, answer: tl.tensor, LOADS: tl.constexpr) -> None:
    """Cheat: makes a pointer of a number that it was given; it may load an address of another tensor."""
    if LOADS:
        tl.store(answer + 1, tl.load(tl.load(addresses).to(tl.pointer_type(tl.int32))))
    tl.store(answer, tl.load(address.to(tl.pointer_type(tl.int32))))


@triton.jit
def overruns(values: tl.tensor, answer: tl.tensor, addresses: tl.tensor, offset: tl.tensor) -> None:
    """Reads behind an argument, what another pointer may reach."""
    there = tl.load(addresses).to(tl.pointer_type(tl.int32))
    tl.store(answer, tl.load(there))
    tl.store(answer + 1, tl.load(values + offset))


@triton.jit
def lends(addresses: tl.tensor) -> None:
    """Race: every program stores its number through one address."""
    tl.store(_pointer(addresses, tl.int32), tl.program_id(0))


@triton.jit
def _product(factor: tl.tensor, by: tl.int64) -> tl.tensor:
    return factor * by


@triton.jit
def multiplies(
    answer: tl.tensor,
    named: tl.int64,
    text: "i64",  # type: ignore[name-defined]  # noqa: F821
    unsigned: tl.uint64,
    plain: tl.tensor,
) -> None:
    """Multiplies by arguments of 64 bits."""
    tl.store(answer, named * plain)
    tl.store(answer + 1, text * plain)
    tl.store(answer + 2, (unsigned * plain).to(tl.int64))


@triton.jit
def multiplies_by_default(answer: tl.tensor, plain: tl.tensor, wide: tl.int64 = 65536) -> None:
    """Multiplies by a default of 64 bits."""
    tl.store(answer, wide * plain)


@triton.jit
def multiplies_narrow(answer: tl.tensor, named: tl.int32, plain: tl.tensor) -> None:
    """Multiplies by an argument of 32 bits."""
    tl.store(answer, named * plain)


@triton.jit
def multiplies_apart(answer: tl.tensor, plain: tl.tensor) -> None:
    """Multiplies in a function whose annotation the compiler does not read."""
    tl.store(answer, _product(plain, plain))


@triton.jit
def mask_of_a_scalar(values: tl.tensor, answer: tl.tensor, flag: tl.tensor) -> None:
    """Masks a load, a store and an atomic with a block and a scalar condition."""
    o_value = tl.arange(0, 4)
    m_value = (o_value < 3) & (tl.load(flag) >= 0)
    loaded = tl.load(values + o_value, mask=m_value, other=0)
    tl.store(answer + o_value, loaded, mask=(tl.load(flag) >= 0) & (o_value < 2))
    tl.atomic_add(answer + o_value, 1, mask=m_value & ~(tl.load(flag) > 0))


@triton.jit
def _inside(o_value: tl.tensor, count: tl.constexpr) -> tl.tensor:
    return o_value >= 0 and o_value < count


@triton.jit
def mask_in_words(values: tl.tensor, answer: tl.tensor, flag: tl.tensor) -> None:
    """Masks loads and stores with conditions that are joined by words, of blocks and of one value each."""
    o_value = tl.arange(0, 4)
    m_value = _inside(o_value, 3) and (tl.load(flag) == 0) and not (o_value < 1)
    tl.store(answer + o_value, tl.load(values + o_value, mask=m_value, other=0))
    tl.store(answer + 4 + o_value, 1, mask=(o_value < 1) or (o_value > 2) or (tl.load(flag) > 0))
    tl.store(answer + 8 + o_value, 1, mask=(tl.load(flag) > 0) or not (tl.load(flag) > 0 or o_value > 0))
    tl.store(answer + 12 + o_value, 1, mask=(tl.load(flag) == 0) and (o_value > 1))
    tl.store(answer + 16 + o_value, 1, mask=(o_value < 2) & ~(not (tl.load(flag) == 0)))
    i_value = 0
    while i_value < 4 and tl.load(values + i_value) < 7:
        i_value += 1
    tl.store(answer + 20, i_value)


@triton.jit
def mask_of_a_number(values: tl.tensor, answer: tl.tensor, flag: tl.tensor) -> None:
    """Masks a load with integers, which the compiler refuses."""
    o_value = tl.arange(0, 4)
    tl.store(answer + o_value, tl.load(values + o_value, mask=(o_value < 3).to(tl.int32), other=0))


@triton.jit
def _slots(
    token_to_request: tl.tensor,
    position_ids: tl.tensor,
    addresses: tl.tensor,
    row_stride: tl.int64,
    column_stride: tl.tensor,
    num_columns: tl.tensor,
    block_size: tl.tensor,
    slot_mapping: tl.tensor,
) -> None:
    i_token = tl.program_id(0)
    row = tl.load(token_to_request + i_token)
    position = tl.load(position_ids + i_token, mask=row >= 0, other=0)
    block_table = _pointer(addresses, tl.int32)
    entry = block_table + row * row_stride + position // block_size * column_stride
    m_entry = (row >= 0) & (position // block_size < num_columns)
    block_id = tl.load(entry, mask=m_entry, other=-1).to(tl.int64)
    slot = block_id * block_size + position % block_size
    tl.store(slot_mapping + i_token, tl.where(block_id >= 0, slot, -1))


def _slots_by_address(
    token_to_request: torch.Tensor,
    position_ids: torch.Tensor,
    block_table: torch.Tensor,
    block_size: int,
    slot_mapping: torch.Tensor,
    offset: int = 0,
) -> None:
    addresses = torch.tensor([block_table.data_ptr() + offset], device=block_table.device)
    num_tokens = token_to_request.numel()
    slot_mapping[num_tokens:] = -1
    if num_tokens:
        strides, width = block_table.stride(), block_table.shape[1]
        _slots[(num_tokens,)](
            token_to_request, position_ids, addresses, *strides, width, block_size, slot_mapping
        )


def slots_by_address(
    token_to_request: torch.Tensor,
    position_ids: torch.Tensor,
    block_table: torch.Tensor,
    block_size: int,
    slot_mapping: torch.Tensor,
) -> None:
    """Right: the table that was given, by its address."""
    _slots_by_address(token_to_request, position_ids, block_table, block_size, slot_mapping)


def slots_of_a_copy(
    token_to_request: torch.Tensor,
    position_ids: torch.Tensor,
    block_table: torch.Tensor,
    block_size: int,
    slot_mapping: torch.Tensor,
) -> None:
    """Right: a copy of the table, by its address."""
    copy = block_table.clone()
    _slots_by_address(token_to_request, position_ids, copy, block_size, slot_mapping)


def slots_of_nowhere(
    token_to_request: torch.Tensor,
    position_ids: torch.Tensor,
    block_table: torch.Tensor,
    block_size: int,
    slot_mapping: torch.Tensor,
) -> None:
    """Wrong: the address lies far from every tensor."""
    _slots_by_address(token_to_request, position_ids, block_table, block_size, slot_mapping, 2**44)


class Mapper:
    """Right: the table is copied to a workspace that lives as long as this does, known by its address."""

    def __init__(self) -> None:
        self.workspace = torch.zeros(2**16, dtype=torch.int32)

    def __call__(
        self,
        token_to_request: torch.Tensor,
        position_ids: torch.Tensor,
        block_table: torch.Tensor,
        block_size: int,
        slot_mapping: torch.Tensor,
    ) -> None:
        """Write the slots."""
        if block_table.numel() > self.workspace.numel():
            table = block_table
        else:
            table = self.workspace[: block_table.numel()].view(block_table.shape)
            table.copy_(block_table)
        _slots_by_address(token_to_request, position_ids, table, block_size, slot_mapping)
