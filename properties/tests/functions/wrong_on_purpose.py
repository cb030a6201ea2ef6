"""Implementations that are wrong on purpose, each in the one way that a single check is there to see."""

import torch

from cumae import gpu_impl


def right_positions(
    token_to_request: torch.Tensor, cu_seqlens_q: torch.Tensor, context_lens: torch.Tensor
) -> torch.Tensor:
    live = token_to_request >= 0
    b = token_to_request.clamp(min=0).long()
    row = torch.arange(token_to_request.numel(), device=token_to_request.device)
    if not cu_seqlens_q.numel() or not context_lens.numel():
        return torch.zeros_like(row)
    return torch.where(live, context_lens[b].long() + row - cu_seqlens_q[b], 0)


def one_too_far(
    token_to_request: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    context_lens: torch.Tensor,
    position_ids: torch.Tensor,
) -> None:
    """Fails ``agrees``: every live position is one too large."""
    right = right_positions(token_to_request, cu_seqlens_q, context_lens)
    position_ids.copy_(right + (token_to_request >= 0))


def padding_left_alone(
    token_to_request: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    context_lens: torch.Tensor,
    position_ids: torch.Tensor,
) -> None:
    """Fails ``writes_everything``: padding rows keep what they held."""
    right = right_positions(token_to_request, cu_seqlens_q, context_lens)
    live = token_to_request >= 0
    position_ids[live] = right[live]


def writes_one_behind(
    token_to_request: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    context_lens: torch.Tensor,
    position_ids: torch.Tensor,
) -> None:
    """Fails ``stays_in_bounds``: one element behind the output is written."""
    count = position_ids.numel()
    position_ids.copy_(right_positions(token_to_request, cu_seqlens_q, context_lens))
    position_ids.as_strided((count + 1,), (1,))[count] = 0


def changes_its_input(
    token_to_request: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    context_lens: torch.Tensor,
    position_ids: torch.Tensor,
) -> None:
    """Fails ``stays_in_bounds``: the context lengths are overwritten when they were used."""
    position_ids.copy_(right_positions(token_to_request, cu_seqlens_q, context_lens))
    context_lens.add_(1)


def believes_padded_requests(
    token_to_request: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    context_lens: torch.Tensor,
    is_prefill: torch.Tensor,
    num_requests: int,
    position_ids: torch.Tensor,
) -> None:
    """Fails ``ignores_garbage``: a padded request that seems to decode shifts every position."""
    right = right_positions(token_to_request, cu_seqlens_q, context_lens)
    shift = bool((~is_prefill[num_requests:]).any())
    position_ids.copy_(torch.where(token_to_request >= 0, right + shift, 0))


def right_slots(
    block_table: torch.Tensor,
    token_to_request: torch.Tensor,
    position_ids: torch.Tensor,
    block_size: int,
    num_slots: int,
) -> torch.Tensor:
    slots = torch.full((num_slots,), -1, dtype=torch.int64, device=position_ids.device)
    for t in range(token_to_request.numel()):
        b, p = int(token_to_request[t]), int(position_ids[t])
        if b >= 0 and p // block_size < block_table.shape[1] and block_table[b, p // block_size] >= 0:
            slots[t] = block_table[b, p // block_size].long() * block_size + p % block_size
    return slots


def rows_without_gaps(
    token_to_request: torch.Tensor,
    position_ids: torch.Tensor,
    block_table: torch.Tensor,
    block_size: int,
    slot_mapping: torch.Tensor,
) -> None:
    """Fails ``accepts_strides``: rows of the table are taken to follow each other."""
    dense = block_table.as_strided(block_table.shape, (block_table.shape[1], 1))
    slot_mapping.copy_(right_slots(dense, token_to_request, position_ids, block_size, slot_mapping.numel()))


def products_in_32_bits(
    token_to_request: torch.Tensor,
    position_ids: torch.Tensor,
    block_table: torch.Tensor,
    block_size: int,
    slot_mapping: torch.Tensor,
) -> None:
    """Fails ``survives_large_ids``: FastDeploy#7367, the product wraps before it is widened."""
    slots = right_slots(block_table, token_to_request, position_ids, block_size, slot_mapping.numel())
    slot_mapping.copy_(slots.to(torch.int32))


def dislikes_empty_requests(
    token_to_request: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    context_lens: torch.Tensor,
    position_ids: torch.Tensor,
) -> None:
    """Fails ``keeps_facts`` on a case without empty requests: with one, positions are wrong."""
    right = right_positions(token_to_request, cu_seqlens_q, context_lens)
    position_ids.copy_(right + int((cu_seqlens_q.diff() == 0).any()))


_ANSWERS: dict[tuple[int, ...], torch.Tensor] = {}


def answers_by_address(
    token_to_request: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    context_lens: torch.Tensor,
    position_ids: torch.Tensor,
) -> None:
    """Fails ``forgets_history``: what stood at these addresses in these shapes before is answered again."""
    key = (token_to_request.data_ptr(), position_ids.data_ptr(), position_ids.numel(), context_lens.numel())
    right = right_positions(token_to_request, cu_seqlens_q, context_lens)
    stale = position_ids.numel() > 0 and 0 <= int(position_ids[0]) < 2**20
    position_ids.copy_(_ANSWERS[key] if stale and key in _ANSWERS else right)
    _ANSWERS[key] = right


def rows_read_as_32_bits(
    token_to_request: torch.Tensor,
    position_ids: torch.Tensor,
    block_table: torch.Tensor,
    block_size: int,
    slot_mapping: torch.Tensor,
) -> None:
    """Fails ``accepts_index_types``: flashinfer#2255, ids of 64 bits are read as if they had 32."""
    narrow = block_table.view(torch.int32).as_strided(block_table.shape, block_table.stride())
    slot_mapping.copy_(right_slots(narrow, token_to_request, position_ids, block_size, slot_mapping.numel()))


def returns_with_a_hole(
    token_to_request: torch.Tensor, cu_seqlens_q: torch.Tensor, context_lens: torch.Tensor
) -> torch.Tensor:
    """Fails ``writes_everything``: the buffer it allocates is left as it was on padding."""
    right = right_positions(token_to_request, cu_seqlens_q, context_lens)
    answer = torch.empty(right.shape, dtype=torch.int64, device=right.device)
    live = token_to_request >= 0
    answer[live] = right[live]
    return answer


def writes_behind_what_it_allocates(
    token_to_request: torch.Tensor, cu_seqlens_q: torch.Tensor, context_lens: torch.Tensor
) -> torch.Tensor:
    """Fails ``stays_in_bounds``: one element behind the buffer it allocates is written."""
    right = right_positions(token_to_request, cu_seqlens_q, context_lens)
    answer = torch.empty(right.shape, dtype=torch.int64, device=right.device)
    answer.copy_(right)
    if answer.numel():
        answer.as_strided((1,), (1,), answer.storage_offset() + answer.numel()).fill_(0)
    return answer


def synchronises(
    token_to_request: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    context_lens: torch.Tensor,
    position_ids: torch.Tensor,
) -> None:
    """Fails ``never_synchronises``: FastDeploy#7253, a number is read back from the device."""
    int(cu_seqlens_q[-1])
    gpu_impl.write_position_ids(token_to_request, cu_seqlens_q, context_lens, position_ids)


def counts_on_the_host(
    token_to_request: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    context_lens: torch.Tensor,
    position_ids: torch.Tensor,
) -> None:
    """Fails ``replays_in_graph``: the first call of a shape decides what a replay writes."""
    gpu_impl.write_position_ids(token_to_request, cu_seqlens_q, context_lens, position_ids)
    if torch.cuda.is_current_stream_capturing():
        position_ids[:1].zero_()
