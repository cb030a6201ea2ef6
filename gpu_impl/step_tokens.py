"""The request, position, slot and window of each token of a step, written by tiles."""

import triton
import triton.language as tl

from cumae.gpu_impl.causal_windows import find_windows
from cumae.gpu_impl.slot_mapping import find_slots
from cumae.gpu_impl.table_rows import find_rows


@triton.jit
def write_tile(
    is_prefill: tl.tensor,
    block_table: tl.tensor,
    row_index: tl.tensor,
    token_to_request: tl.tensor,
    position_ids: tl.tensor,
    slot_mapping: tl.tensor,
    ks: tl.tensor,
    ke: tl.tensor,
    o_token: tl.tensor,
    m_live: tl.tensor,
    i_request: tl.tensor,
    shift: tl.tensor,
    first_key: tl.tensor,
    num_tokens_padded: tl.tensor,
    num_slots: tl.tensor,
    num_rows: tl.tensor,
    table_width: tl.tensor,
    table_row_stride: tl.tensor,
    table_column_stride: tl.tensor,
    ks_stride: tl.tensor,
    ke_stride: tl.tensor,
    token_padding: tl.tensor,
    kernel_block_size: tl.tensor,
    compress_ratio: tl.tensor,
    window: tl.tensor,
    world: tl.tensor,
    rank: tl.tensor,
    interleave: tl.tensor,
    HAS_ROW_INDEX: tl.constexpr,
    HAS_WINDOW: tl.constexpr,
    IS_SHARDED: tl.constexpr,
) -> None:
    """Write what tokens have: their request, position, slot and window.

    shift: what a token's number and its position differ by; first_key: the first row of its request's keys.
    """
    position = tl.where(m_live, o_token + shift, 0)
    i_row, m_slot = find_rows(row_index, i_request, m_live, num_rows, HAS_ROW_INDEX)
    slot = find_slots(
        block_table,
        i_row,
        position,
        m_slot,
        table_width,
        table_row_stride,
        table_column_stride,
        kernel_block_size,
        world,
        rank,
        interleave,
        IS_SHARDED,
    )
    m_window = m_live & (tl.load(is_prefill + i_request, mask=m_live, other=0) != 0)
    first, stop = find_windows(
        position + 1,
        first_key,
        m_window,
        compress_ratio,
        window,
        world,
        rank,
        interleave,
        HAS_WINDOW,
        IS_SHARDED,
    )
    m_token = o_token < num_tokens_padded
    row = o_token.to(tl.int64)
    tl.store(token_to_request + o_token, tl.where(m_live, i_request, token_padding), mask=m_token)
    tl.store(position_ids + o_token, position, mask=m_token)
    tl.store(ks + row * ks_stride, first, mask=m_token)
    tl.store(ke + row * ke_stride, stop, mask=m_token)
    tl.store(slot_mapping + o_token, slot, mask=o_token < num_slots)
