"""The kernel that writes a whole step, and its running sums where each program scans all requests."""

import triton
import triton.language as tl

from cumae.gpu_impl.early_launch import wait_for_kernel_before
from cumae.gpu_impl.request_scan import (
    count_near_stops,
    count_stops,
    count_tokens,
    load_lens,
    owners_between,
    owners_in_scan,
    scan_lens,
    store_sums,
)
from cumae.gpu_impl.step_tokens import write_tile


@triton.jit(
    do_not_specialize=[
        "num_requests",
        "num_tokens_padded",
        "num_slots",
        "num_rows",
        "table_width",
        "table_row_stride",
        "token_padding",
        "last_q",
        "window",
        "rank",
    ]
)
def _write_step(
    context_lens: tl.tensor,
    query_lens: tl.tensor,
    is_prefill: tl.tensor,
    block_table: tl.tensor,
    row_index: tl.tensor,
    cu_seqlens_q: tl.tensor,
    cu_seqlens_k: tl.tensor,
    token_to_request: tl.tensor,
    max_seqlen_q: tl.tensor,
    max_seqlen_k: tl.tensor,
    position_ids: tl.tensor,
    slot_mapping: tl.tensor,
    ks: tl.tensor,
    ke: tl.tensor,
    num_requests: tl.tensor,
    num_tokens_padded: tl.tensor,
    num_slots: tl.tensor,
    num_rows: tl.tensor,
    table_width: tl.tensor,
    table_row_stride: tl.tensor,
    table_column_stride: tl.tensor,
    ks_stride: tl.tensor,
    ke_stride: tl.tensor,
    token_padding: tl.tensor,
    last_q: tl.tensor,
    kernel_block_size: tl.tensor,
    compress_ratio: tl.tensor,
    window: tl.tensor,
    world: tl.tensor,
    rank: tl.tensor,
    interleave: tl.tensor,
    IS_PREFILL_SCOPE: tl.constexpr,
    HAS_DUMMY: tl.constexpr,
    HAS_ROW_INDEX: tl.constexpr,
    HAS_WINDOW: tl.constexpr,
    IS_SHARDED: tl.constexpr,
    REQUESTS: tl.constexpr,
    TILE: tl.constexpr,
    TILES: tl.constexpr,
    BEGINS_EARLY: tl.constexpr,
) -> None:
    wait_for_kernel_before(BEGINS_EARLY)
    i_tile = tl.program_id(0)
    if REQUESTS > 0:
        context_len, query_len, num_keys = load_lens(
            context_lens, query_lens, is_prefill, num_requests, compress_ratio, IS_PREFILL_SCOPE, REQUESTS
        )
        stop_q, stop_k = scan_lens(query_len, num_keys)
        # The first program writes the sums, the others a tile of tokens each.
        if i_tile == 0:
            store_sums(
                context_len,
                query_len,
                stop_q,
                stop_k,
                cu_seqlens_q,
                cu_seqlens_k,
                max_seqlen_q,
                max_seqlen_k,
                num_requests,
                last_q,
                HAS_DUMMY,
                REQUESTS,
            )
            return
        i_first = (i_tile - 1) * TILE
    else:
        num_tokens = count_tokens(query_lens, cu_seqlens_q, num_requests)
        i_first = i_tile * (TILE * TILES)
        low = count_stops(cu_seqlens_q, num_requests, tl.full((), 0, tl.int32), i_first)
    for i_part in range(TILES):
        i_begin = i_first + i_part * TILE
        o_token = i_begin + tl.arange(0, TILE)
        if REQUESTS > 0:
            i_request = owners_in_scan(query_len, stop_q, num_requests, i_begin, TILE)
            m_live = i_request < num_requests
            i_known = tl.minimum(i_request, REQUESTS - 1)
            shift = tl.gather(context_len - (stop_q - query_len), i_known, 0)
            first_key = tl.gather(stop_k - num_keys, i_known, 0)
        else:
            m_live = o_token < num_tokens
            # The search for the next part begins where this one ends.
            high = count_near_stops(cu_seqlens_q, num_requests, low, i_begin + TILE)
            i_request = owners_between(cu_seqlens_q, low, high, i_begin, TILE)
            low = high
            shift = tl.load(context_lens + i_request, mask=m_live, other=0).to(tl.int32)
            shift -= tl.load(cu_seqlens_q + i_request, mask=m_live, other=0)
            first_key = tl.load(cu_seqlens_k + i_request, mask=m_live, other=0)
        write_tile(
            is_prefill,
            block_table,
            row_index,
            token_to_request,
            position_ids,
            slot_mapping,
            ks,
            ke,
            o_token,
            m_live,
            i_request,
            shift,
            first_key,
            num_tokens_padded,
            num_slots,
            num_rows,
            table_width,
            table_row_stride,
            table_column_stride,
            ks_stride,
            ke_stride,
            token_padding,
            kernel_block_size,
            compress_ratio,
            window,
            world,
            rank,
            interleave,
            HAS_ROW_INDEX,
            HAS_WINDOW,
            IS_SHARDED,
        )
