"""Convert a step of vLLM from its tensors to a case."""

from itertools import pairwise
from typing import Any

from cumae.oracle import Batch, Case, Layout, Options, Phase, Request
from cumae.oracle.model.rules import inside, require
from cumae.properties.dialects.tensor_values import (
    Unreadable,
    first_given,
    live_blocks,
    read_count,
    read_flags,
    read_lens,
    read_starts,
    read_table,
    require_equal_copy,
    require_given,
)

NULL_BLOCK = 0


def capture(
    query_start_loc: Any = None,
    block_table: Any = None,
    block_size: Any = None,
    num_computed_tokens: Any = None,
    seq_lens: Any = None,
    is_prefill: Any = None,
    num_prefills: Any = None,
    decode_threshold: Any = None,
    num_reqs: Any = None,
    num_tokens_padded: Any = None,
    kernel_block_size: Any = None,
    dcp_world_size: Any = 1,
    dcp_rank: Any = 0,
    cp_kv_cache_interleave_size: Any = 1,
    query_start_loc_cpu: Any = None,
) -> Case:
    """Return the case of a step of vLLM. Raises ``ValueError`` if the tensors are not a valid step.

    The context comes from ``num_computed_tokens`` or ``seq_lens``, the phase from one of ``is_prefill``,
    ``num_prefills`` (the last ones) and ``decode_threshold`` (longest query of a decode). Entries after
    ``num_reqs`` and after the last start are padding. The null block 0 and -1 mean no block. A copy on the
    host must equal its tensor.
    """
    wanted = {"query_start_loc": query_start_loc, "block_table": block_table, "block_size": block_size}
    wanted["num_computed_tokens or seq_lens"] = first_given(num_computed_tokens, seq_lens)
    phase_from = first_given(is_prefill, num_prefills, decode_threshold)
    wanted["is_prefill, num_prefills or decode_threshold"] = phase_from
    require_given("every step of vllm", wanted)
    require_equal_copy("query_start_loc", query_start_loc, query_start_loc_cpu)
    starts = read_starts("query_start_loc", query_start_loc)
    count = len(starts) - 1
    live = count if num_reqs is None else read_count("num_reqs", num_reqs, 0, count)
    query_lens = [stop - start for start, stop in pairwise(starts)]
    for b in range(live, count):
        require(query_lens[b] == 0, f"query_start_loc[{b + 1}]", starts[b + 1], f"be {starts[b]}: padding")
    contexts = _read_contexts(query_lens, num_computed_tokens, seq_lens)
    size = read_count("block_size", block_size, 1)
    kernel = size if kernel_block_size is None else read_count("kernel_block_size", kernel_block_size, 1)
    require(size % kernel == 0, "kernel_block_size", kernel, f"divide block_size = {size}")
    world = read_count("dcp_world_size", dcp_world_size, 1)
    is_decode = _read_decodes(contexts[:live], query_lens, is_prefill, num_prefills, decode_threshold)
    table = read_table("block_table", block_table, live)
    parts = size // kernel
    requests = []
    for b in range(live):
        needed = -(-(contexts[b] + query_lens[b]) // (size * world))
        kernel_ids = live_blocks(f"block_table[{b}]", table[b], needed * parts, NULL_BLOCK * parts)
        block_ids = tuple(_manager_block(b, j, kernel_ids, parts) for j in range(needed))
        with inside(f"requests[{b}]."):
            phase: Phase = "decode" if is_decode[b] else "prefill"
            requests.append(Request(contexts[b], query_lens[b], block_ids, phase))
    width = len(table[0]) // parts if table else 0
    padded = starts[-1] if num_tokens_padded is None else read_count("num_tokens_padded", num_tokens_padded)
    require(padded >= starts[-1], "num_tokens_padded", padded, f"be >= {starts[-1]}, the tokens of the step")
    layout = Layout(
        num_padding_tokens=padded - starts[-1],
        num_padding_requests=count - live,
        num_spare_rows=max(len(table) - count, 0),
        num_spare_columns=width - max((len(request.block_ids) for request in requests), default=0),
    )
    options = Options.of(
        rank=read_count("dcp_rank", dcp_rank),
        interleave=read_count("cp_kv_cache_interleave_size", cp_kv_cache_interleave_size, 1),
        kernel_block_size=None if kernel == size else kernel,
    )
    return Case(Batch(tuple(requests), size, world), layout, options)


def _read_contexts(query_lens: list[int], num_computed_tokens: Any, seq_lens: Any) -> list[int]:
    """Return the context of each request from either tensor; if both are given, they must agree."""
    count = len(query_lens)
    contexts = []
    if num_computed_tokens is not None:
        contexts = read_lens("num_computed_tokens", num_computed_tokens, count)
    if seq_lens is None:
        return contexts
    lens = read_lens("seq_lens", seq_lens, count)
    for b, (seq_len, query_len) in enumerate(zip(lens, query_lens, strict=True)):
        require(seq_len >= query_len, f"seq_lens[{b}]", seq_len, f"be >= {query_len}, its query length")
        if contexts:
            rule = f"be {contexts[b]} + {query_len} = num_computed_tokens + query length"
            require(seq_len == contexts[b] + query_len, f"seq_lens[{b}]", seq_len, rule)
    return [seq_len - query_len for seq_len, query_len in zip(lens, query_lens, strict=True)]


def _read_decodes(
    contexts: list[int], query_lens: list[int], is_prefill: Any, num_prefills: Any, threshold: Any
) -> list[bool]:
    """Return which live requests decode; a request without context never does (vllm#47123)."""
    given = {"is_prefill": is_prefill, "num_prefills": num_prefills, "decode_threshold": threshold}
    names = [name for name, value in given.items() if value is not None]
    if len(names) != 1:
        raise Unreadable(f"phase = {names}, must be given by one of {', '.join(given)}")
    live = len(contexts)
    if is_prefill is not None:
        flags = read_flags("is_prefill", is_prefill, live)
        return [not flags[b] and (contexts[b] > 0 or query_lens[b] > 0) for b in range(live)]
    if num_prefills is not None:
        first = live - read_count("num_prefills", num_prefills, 0, live)
        return [b < first and (contexts[b] > 0 or query_lens[b] > 0) for b in range(live)]
    most = read_count("decode_threshold", threshold)
    return [contexts[b] > 0 and query_lens[b] <= most for b in range(live)]


def _manager_block(b: int, j: int, kernel_ids: tuple[int, ...], parts: int) -> int:
    """Return the manager block whose kernel blocks are consecutive entries of a row."""
    ids = kernel_ids[j * parts : (j + 1) * parts]
    if parts == 1 or ids[0] < 0:
        return ids[0]
    whole = ids[0] % parts == 0 and all(i == ids[0] + part for part, i in enumerate(ids))
    rule = f"be {parts} kernel blocks in a row, the first a multiple of {parts}"
    require(whole, f"block_table[{b}][{j * parts}:{(j + 1) * parts}]", list(ids), rule)
    return ids[0] // parts
