"""All that a step needs of where its tokens and keys lie, in one launch, or more for very large steps."""

import torch

from cumae.gpu_impl.arguments import INDEX_DTYPES, check_int, check_tensor
from cumae.gpu_impl.causal_windows import check_windows
from cumae.gpu_impl.early_launch import early
from cumae.gpu_impl.request_scan import NUM_PROGRAMS, shape_of_scan
from cumae.gpu_impl.running_sums import launch_running_sums
from cumae.gpu_impl.sequence_layout import KeyScope, check_layout
from cumae.gpu_impl.slot_mapping import check_blocks
from cumae.gpu_impl.step_kernel import _write_step
from cumae.gpu_impl.table_rows import check_table

# With more tokens than these, a program searches the running sums once for several tiles.
MANY_TOKENS = 512 * NUM_PROGRAMS
TILES_PER_SEARCH = 4


def write_step_metadata(
    context_lens: torch.Tensor,
    query_lens: torch.Tensor,
    is_prefill: torch.Tensor,
    block_table: torch.Tensor,
    row_index: torch.Tensor | None,
    block_size: int,
    kernel_block_size: int,
    compress_ratio: int,
    window: int,
    world: int,
    rank: int,
    interleave: int,
    key_scope: KeyScope,
    token_padding: int,
    dummy_request: bool,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    token_to_request: torch.Tensor,
    max_seqlen_q: torch.Tensor,
    max_seqlen_k: torch.Tensor,
    position_ids: torch.Tensor,
    slot_mapping: torch.Tensor,
    ks: torch.Tensor,
    ke: torch.Tensor,
) -> None:
    """Write what the launches of layout, positions, slots and windows write, in one launch.

    Arguments, outputs and errors are those of `write_sequence_layout`, `write_position_ids`,
    `write_slot_mapping` and `write_causal_windows`: tokens are counted from context_lens and query_lens [R],
    every output is padded to T, the length of token_to_request, and slot_mapping to S >= T. seq_lens,
    slots aside, fit int32. ks and ke may be views with a stride, as those of a packed tensor [2T].
    One launch, two for millions of tokens, four for more than 4,096 requests. No program reads what another
    one of its launch writes. From Hopper on, the launch begins while the kernel before it ends, and waits for
    it before it reads or writes anything. Every element is written. Does not synchronise or allocate, so a
    CUDA graph can capture it.

    >>> lens = torch.tensor([3, 4, 0]), torch.tensor([2, 0, 3]), torch.ones(3, dtype=torch.bool)
    >>> table = torch.tensor([[7, 5], [9, -1], [2, -1]])
    >>> layout = [torch.empty(size, dtype=torch.int32) for size in (4, 4, 6, 1, 1)]
    >>> position_ids, slot_mapping = torch.empty((2, 6), dtype=torch.int64)
    >>> ks, ke = torch.empty((2, 6), dtype=torch.int32)
    >>> options = (4, 4, 1, 0, 1, 0, 1, "all", -1, False)
    >>> write_step_metadata(*lens, table, None, *options, *layout, position_ids, slot_mapping, ks, ke)
    >>> layout[2].tolist(), position_ids.tolist()
    ([0, 0, 2, 2, 2, -1], [3, 4, 0, 1, 2, 0])
    >>> slot_mapping.tolist(), ks.tolist(), ke.tolist()
    ([31, 20, 8, 9, 10, -1], [0, 0, 9, 9, 9, 0], [4, 5, 10, 11, 12, 0])
    """
    check_layout(
        context_lens,
        query_lens,
        is_prefill,
        compress_ratio,
        key_scope,
        token_padding,
        dummy_request,
        cu_seqlens_q,
        cu_seqlens_k,
        token_to_request,
        max_seqlen_q,
        max_seqlen_k,
    )
    device, num_requests = context_lens.device, context_lens.numel()
    num_tokens_padded, num_slots = token_to_request.numel(), slot_mapping.numel()
    check_table(block_table, row_index, num_requests, device)
    check_blocks(block_size, kernel_block_size, world, rank, interleave)
    check_int("window", window, 0)
    if compress_ratio > 1 and window > 0:
        raise ValueError(f"window = {window}, must be 0 when compress_ratio > 1")
    check_tensor("position_ids", position_ids, INDEX_DTYPES, (num_tokens_padded,), device)
    check_tensor("slot_mapping", slot_mapping, (torch.int64,), (None,), device)
    if num_slots < num_tokens_padded:
        raise ValueError(f"slot_mapping.shape = ({num_slots},), must be at least ({num_tokens_padded},)")
    check_windows(ks, ke, num_tokens_padded, device)

    requests, tile, num_warps = shape_of_scan(num_requests, num_slots)
    tiles = 1
    if requests == 0 and num_slots > MANY_TOKENS:
        # With two tokens a thread, no width of store needs another layout, which goes through shared memory.
        tile, tiles, num_warps = 512, TILES_PER_SEARCH, 8
    num_tiles = -(-num_slots // (tile * tiles))
    with torch.cuda.device(context_lens.get_device()):
        if requests == 0:
            launch_running_sums(
                context_lens,
                query_lens,
                is_prefill,
                compress_ratio,
                key_scope == "prefill",
                num_tokens_padded if dummy_request else None,
                cu_seqlens_q,
                cu_seqlens_k,
                max_seqlen_q,
                max_seqlen_k,
            )
            if num_tiles == 0:
                return
        _write_step[(num_tiles + (requests > 0),)](
            context_lens,
            query_lens,
            is_prefill,
            block_table,
            block_table if row_index is None else row_index,
            cu_seqlens_q,
            cu_seqlens_k,
            token_to_request,
            max_seqlen_q,
            max_seqlen_k,
            position_ids,
            slot_mapping,
            ks,
            ke,
            num_requests,
            num_tokens_padded,
            num_slots,
            block_table.shape[0],
            block_table.shape[1],
            *block_table.stride(),
            ks.stride(0),
            ke.stride(0),
            token_padding,
            num_tokens_padded,
            kernel_block_size,
            compress_ratio,
            window,
            world,
            rank,
            interleave,
            IS_PREFILL_SCOPE=key_scope == "prefill",
            HAS_DUMMY=dummy_request,
            HAS_ROW_INDEX=row_index is not None,
            HAS_WINDOW=window > 0,
            IS_SHARDED=world > 1,
            REQUESTS=requests,
            TILE=tile,
            TILES=tiles,
            num_warps=num_warps,
            **early(device),
        )
