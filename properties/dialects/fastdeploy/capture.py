"""Convert a step of FastDeploy from its tensors to a case."""

from typing import Any

from cumae.oracle import Batch, Case, Layout, Phase, Request
from cumae.oracle.model.rules import inside, require
from cumae.properties.dialects.tensor_values import (
    live_blocks,
    read_count,
    read_lens,
    read_table,
    reading,
    require_given,
)


def capture(
    seq_lens_encoder: Any = None,
    seq_lens_decoder: Any = None,
    seq_lens_this_time: Any = None,
    block_tables: Any = None,
    block_size: Any = None,
    real_bsz: Any = None,
    num_tokens_padded: Any = None,
) -> Case:
    """Return the case of a step of FastDeploy. Raises ``ValueError`` if the tensors are not a valid step.

    A request with encoder tokens is a prefill; one without is a decode if it has context. Rows from
    ``real_bsz`` on are padding. ``seq_lens_this_time`` may be cut to running requests; entries of the other
    tensors behind them are ignored.
    """
    lens = {"seq_lens_encoder": seq_lens_encoder, "seq_lens_decoder": seq_lens_decoder}
    wanted = {**lens, "seq_lens_this_time": seq_lens_this_time}
    wanted |= {"block_tables": block_tables, "block_size": block_size}
    require_given("every step of fastdeploy", wanted)
    query_lens = read_lens("seq_lens_this_time", seq_lens_this_time)
    count = len(query_lens)
    encoder = _read_state("seq_lens_encoder", seq_lens_encoder, count)
    contexts = _read_state("seq_lens_decoder", seq_lens_decoder, count)
    for b in range(count):
        same = encoder[b] in (0, query_lens[b])
        require(same, f"seq_lens_encoder[{b}]", encoder[b], f"be 0 or this_time = {query_lens[b]}")
    live = count if real_bsz is None else read_count("real_bsz", real_bsz, 0, count)
    for b in range(live, count):
        require(query_lens[b] == 0, f"seq_lens_this_time[{b}]", query_lens[b], "be 0: padding")
    size = read_count("block_size", block_size, 1)
    table = read_table("block_tables", block_tables, live)
    requests = []
    for b in range(live):
        needed = -(-(contexts[b] + query_lens[b]) // size)
        block_ids = live_blocks(f"block_tables[{b}]", table[b], needed)
        phase: Phase = "decode" if encoder[b] == 0 < contexts[b] + query_lens[b] else "prefill"
        with inside(f"requests[{b}]."):
            requests.append(Request(contexts[b], query_lens[b], block_ids, phase))
    width = len(table[0]) if table else 0
    num_live = sum(query_lens)
    padded = num_live if num_tokens_padded is None else read_count("num_tokens_padded", num_tokens_padded)
    require(padded >= num_live, "num_tokens_padded", padded, f"be >= {num_live}, the tokens of the step")
    layout = Layout(
        num_padding_tokens=padded - num_live,
        num_padding_requests=count - live,
        num_spare_rows=max(len(table) - count, 0),
        num_spare_columns=width - max((len(request.block_ids) for request in requests), default=0),
    )
    return Case(Batch(tuple(requests), size), layout)


def _read_state(name: str, tensor: Any, count: int) -> list[int]:
    """Return the first ``count`` lengths of a tensor with a row for each request that the engine can hold."""
    values = read_lens(name, tensor)
    with reading():
        require(len(values) >= count, f"{name}: number", len(values), f"be >= {count}, as seq_lens_this_time")
    return values[:count]
